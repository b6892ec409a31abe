"""Flows of RDDs that the store knows of."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from whence.model import StoreError
from whence.rdd.books import BOOK, PastBook
from whence.rdd.flow import RddFlow
from whence.rdd.saves import KIND
from whence.store.producers import Product

if TYPE_CHECKING:
    from whence.rdd.context import LineageContext


def open_flow(product: Product, context: LineageContext | None = None) -> RddFlow:
    """The run that made this: the one that is going on, or one that another process wrote into the store."""
    if product.kind != KIND:
        raise StoreError(f"{product.key} was made by {product.kind} {product.run}, which is no run of RDDs.")
    if context is not None and product.run == context.book.run:
        return RddFlow(context.book, context)
    places = [Path(str(product.details.get("directory", "")))]
    if context is not None:  # a store that was moved is where the context's own is
        places.insert(0, Path(context.book.directory).parent / product.run)
    return RddFlow(PastBook(next((p for p in places if (p / BOOK).exists()), places[0])))


def flow_behind(rdd: Any, context: LineageContext) -> RddFlow | None:
    """The flow that made the records of an RDD of the JVM, as it stands below a DataFrame: `RddFlow.result` says which
    RDD it is; None where no LineageRDD was handed over to it.

    Spark puts only steps of one row for each above what was handed over, so that a row's partition and number are
    those of the record."""
    while True:
        found = context.book.handed.get(int(rdd.id()))
        if found is not None:
            return RddFlow(context.book, context, found)
        below = rdd.dependencies()
        if below.size() != 1 or rdd.getClass().getSimpleName() != "MapPartitionsRDD":
            return None
        rdd = below.head().rdd()
