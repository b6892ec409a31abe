"""Flows of RDDs that the store knows of."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from whence.model import NonDeterministic, StoreError
from whence.rdd.books import BOOK, PastBook
from whence.rdd.flow import RddFlow
from whence.rdd.lineage_rdd import LineageRDD
from whence.rdd.saves import KIND, attempts
from whence.store import private
from whence.store.producers import Product

if TYPE_CHECKING:
    from whence.rdd.context import LineageContext


def open_flow(product: Product, context: LineageContext | None = None) -> RddFlow:
    """The run that made this: the one that is going on, or one that another process wrote into the store."""
    if product.kind != KIND:
        raise StoreError(f"{product.key} was made by {product.kind} {product.run}, which is no run of RDDs.")
    if context is not None and product.run == context.book.run:
        return RddFlow(context.book, context)
    if context is not None:  # a store that was moved is where the context's own is
        own = context.book.runs.below(private.require_name(product.run))
        if own.size(BOOK) is not None:
            return RddFlow(PastBook(own))
    return RddFlow(PastBook(str(product.details.get("directory", ""))))


class HandedOver:
    """A LineageRDD whose records became rows of a DataFrame. `rows`: what the SQL side keeps about them."""

    def __init__(self, rdd: LineageRDD) -> None:
        self.rdd = rdd
        self.site = RddFlow(rdd.ctx.book, rdd.ctx, rdd).outputs[0]
        self.rows: Any = None

    @contextmanager
    def pinning(self) -> Iterator[None]:
        """Of the one job that computes the RDD within, the tables are the ones that count from then on."""
        book = self.rdd.ctx.book
        info, _ = self.rdd._recording_view()
        before = attempts(book, info)
        yield
        after = attempts(book, info)
        if any(after[part] != before[part] + 1 for part in after):
            raise NonDeterministic(
                f"The records of {self.site} come in no certain order, and something else computed them while they "
                "were told apart. Ask again when nothing else runs, or make the DataFrame from rdd.sortBy(...)."
            )
        book.pins[self.rdd.node.id] = tuple((info.id, part, book.whole(info.id, part)[-1]) for part in after)


def handed_over(rdd: Any, context: LineageContext) -> HandedOver | None:
    """The LineageRDD behind an RDD of the JVM that a DataFrame's rows are of; None where there is none.

    Spark puts only steps of one row for each above what was handed over, so that a row's partition and number are
    those of the record."""
    while True:
        number = int(rdd.id())
        if number in context.book.handed:
            if number not in context.book.bridges:
                context.book.bridges[number] = HandedOver(context.book.handed[number])
            found: HandedOver = context.book.bridges[number]
            return found
        below = rdd.dependencies()
        if below.size() != 1 or rdd.getClass().getSimpleName() != "MapPartitionsRDD":
            return None
        rdd = below.head().rdd()
