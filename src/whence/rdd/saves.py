"""Files that RDDs were saved to, and what the store is told about them."""

from __future__ import annotations

import inspect
import os
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from whence.model import StoreError
from whence.model.flow import BY_BYTE, BY_NUMBER
from whence.rdd.books import Save, SavedFile
from whence.rdd.stages import StageInfo
from whence.spark.rdds import listed, qualified
from whence.store.producers import Product, file_key

if TYPE_CHECKING:
    from whence.rdd.context import LineageContext
    from whence.rdd.live_book import LiveBook

KIND = "rdd"
_PART = re.compile(r"part-(?:[mr]-)?(\d+)(?:[.-].*)?")
_DIRECTORIES = ("mapreduce.output.fileoutputformat.outputdir", "mapred.output.dir")
_TEXT = "TextOutputFormat"

Attempts = dict[int, int]


def bound(plain: Callable[..., Any], rdd: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    return dict(inspect.signature(plain).bind(rdd, *args, **kwargs).arguments)


def attempts(book: LiveBook, info: StageInfo) -> Attempts:
    """How many tables each partition has."""
    book.take_commits()
    return {part: len(book.whole(info.id, part)) for part in range(info.partitions)}


def note_save(
    context: LineageContext, node: int, info: StageInfo, before: Attempts, name: str, given: Mapping[str, Any]
) -> None:
    """Enter what was just saved, here and in the store. The files are written: nothing that goes wrong now may fail the
    user's job."""
    try:
        save = _save(context, node, info, before, name, given)
        if save is not None:
            with context.book.making:
                context.book.saves = [s for s in context.book.saves if s.root != save.root] + [save]
            context.publish()
    except Exception as failed:
        warnings.warn(
            f"The files of this {name} are written, but whence could not note where they come from ({failed}); traces "
            "will end at them.",
            stacklevel=4,
        )


def _save(
    context: LineageContext, node: int, info: StageInfo, before: Attempts, name: str, given: Mapping[str, Any]
) -> Save | None:
    conf = given.get("conf") or {}
    path = given.get("path") or next((conf[key] for key in _DIRECTORIES if key in conf), None)
    if path is None:
        return None
    written = str(given.get("outputFormatClass") or next((v for k, v in conf.items() if "outputformat" in k), ""))
    told_by = BY_BYTE if name == "saveAsTextFile" or written.endswith(_TEXT) else BY_NUMBER
    book = context.book
    after = attempts(book, info)
    tables = [(info.id, part, found[-1]) for part in range(info.partitions) if (found := book.whole(info.id, part))]
    sure = all(after[part] - before[part] <= 1 for part in after)
    files = tuple(_files(context, str(path)))
    return Save(node, _root(files, str(path)), told_by, files, tuple(tables), sure)


def _root(files: tuple[SavedFile, ...], path: str) -> str:
    return files[0].key.rsplit("/", 1)[0] if files else file_key(path)


def _files(context: LineageContext, path: str) -> Iterator[SavedFile]:
    """As Hadoop lists them, wherever they are."""
    home = file_key(qualified(context.spark, path))
    if home.startswith("/"):
        for entry in sorted(os.scandir(home), key=lambda e: e.name):
            if (part := _part(entry.name)) is not None:
                status = entry.stat()
                yield SavedFile(entry.path, part, status.st_size, status.st_mtime_ns // 1_000_000)
        return
    for key, length, changed in listed(context.spark, path):
        if (part := _part(key.rsplit("/", 1)[-1])) is not None:
            yield SavedFile(key, part, length, changed)


def _part(name: str) -> int | None:
    found = _PART.fullmatch(name)
    return int(found[1]) if found else None


def products(book: LiveBook) -> Iterator[Product]:
    """What the run has made so far: results by their site, saves by their files. Which files were read is told once
    for each result."""
    for result in book.written():
        reads = sorted(set(_read_for(book, result.node)))
        details = {"node": result.node, "directory": book.directory, "reads": reads}
        yield Product(f"rdd {book.run}/{result.node}", KIND, book.run, details=details)
    for save in book.saves:
        for file in save.files:
            details = {"node": save.node, "partition": file.part, "directory": book.directory}
            yield Product(file.key, KIND, book.run, file.length, file.changed, details)


def _read_for(book: LiveBook, node: int) -> Iterator[str]:
    nodes, seen, todo = book.nodes, set[int](), [node]
    while todo:
        number = todo.pop()
        if number in seen:
            continue
        seen.add(number)
        if number in book.readings:
            yield from (file_key(split.path) for split in book.source(number).splits)
        if number in nodes:
            todo.extend(nodes[number].inputs)


def require_unchanged(file: SavedFile) -> None:
    if not Product(file.key, KIND, "", file.length, file.changed).is_there:
        raise StoreError(f"{file.key} is not as it was saved: it was changed or removed since, so it cannot be traced.")
