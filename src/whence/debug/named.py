"""A dataset by its name: the DataFrame that reads it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlparse

from whence.model import UnknownDataset, WhenceError
from whence.store.catalog import Catalog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# By the end of their names, as Spark's own writers give them.
_FORMATS = {"parquet": "parquet", "orc": "orc", "csv": "csv", "json": "json", "txt": "text", "avro": "avro"}
_COMPRESSIONS = (".gz", ".bz2", ".zst", ".snappy", ".lz4", ".deflate")


def frame_by_name(spark: SparkSession, catalog: Catalog, name: str) -> DataFrame:
    """A table or view of Spark's, a path, or a name that the catalogue knows one of these by."""
    if _is_table(spark, name):
        return spark.table(name)
    path = name if "/" in name else _known(catalog, name)
    if path is None:
        raise UnknownDataset(f"There is no table, view or path {name!r}, and the catalogue knows none by that name.")
    if _is_table(spark, path):
        return spark.table(path)
    return _read(spark, path)


def _is_table(spark: SparkSession, name: str) -> bool:
    from pyspark.errors import AnalysisException

    try:
        return spark.catalog.tableExists(name)
    except AnalysisException:  # no name that SQL could say, such as a path
        return False


def _known(catalog: Catalog, name: str) -> str | None:
    try:
        dataset = catalog.dataset(name)
    except UnknownDataset:
        return None
    if dataset.kind == "path":
        return dataset.name if dataset.namespace in ("file", "") else f"{dataset.namespace}{dataset.name}"
    return dataset.name


def _read(spark: SparkSession, path: str) -> DataFrame:
    kinds = kinds_of(path)
    if kinds == {"csv"}:
        return spark.read.option("header", True).csv(path)
    if len(kinds) == 1:
        return spark.read.format(kinds.pop()).load(path)
    what = "holds no files of a format that is told by its name" if not kinds else f"holds {', '.join(sorted(kinds))}"
    raise WhenceError(
        f"{path} {what}: read it yourself and ask about the DataFrame, as in w.backward(spark.read.text({path!r}))."
    )


def kinds_of(path: str) -> set[str]:
    parsed = urlparse(path)
    local = unquote(parsed.path) if parsed.scheme in ("", "file") else None
    if local is None or not os.path.isdir(local):
        return _kind(path)
    if os.path.isdir(os.path.join(local, "_delta_log")):
        return {"delta"}
    found: set[str] = set()
    for _, folders, files in os.walk(local):
        folders[:] = [folder for folder in folders if not folder.startswith(("_", "."))]
        for file in files:
            if not file.startswith(("_", ".")):
                found |= _kind(file)
    return found


def _kind(file: str) -> set[str]:
    for compression in _COMPRESSIONS:
        file = file.removesuffix(compression)
    kind = _FORMATS.get(file.rpartition(".")[2].lower())
    return {kind} if kind is not None else set()
