"""Rows of a query's sources as everybody tells them (model/flow.py), and as the query itself does, by numbers alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from whence.model import WhenceError
from whence.model.flow import BY_BYTE, BY_ROW, RecordId, Site, files_site
from whence.spark.construct import POSITION_BITS
from whence.sql.blocks import ReadingPlace
from whence.sql.line_rows import rows_of_file, why_not_by_byte
from whence.sql.lineage import SqlLineage
from whence.sql.sources import has_row_index
from whence.store.producers import file_key


def apart(position: int) -> RecordId:
    return position >> POSITION_BITS, position & (1 << POSITION_BITS) - 1


def together(one: RecordId) -> tuple[int, ...]:
    if len(one) != 2 or not all(isinstance(number, int) and number >= 0 for number in one):
        raise WhenceError(f"{one!r} is no row here: these are told by partition and number.")
    return ((int(one[0]) << POSITION_BITS) + int(one[1]),)


def site_of(lineage: SqlLineage, name: str, places: Sequence[ReadingPlace]) -> Site:
    c = lineage.c
    dataset = places[0].dataset
    scans = [place.leaf.plan for place in places]
    if all(c.is_file_scan(scan) for scan in scans):
        root = "|".join(file_key(path) for path in dataset.where.removeprefix("files:").split("|"))
        if all(has_row_index(c, place.leaf) for place in places):
            return files_site(BY_ROW, root, name)
        if all(why_not_by_byte(c, scan) is None for scan in scans):
            return files_site(BY_BYTE, root, name)
    return Site(dataset.key, name)


def told_in_files(
    lineage: SqlLineage, places: Sequence[ReadingPlace], told: Sequence[tuple[int, int]]
) -> list[RecordId]:
    """(hash of the file, position) as everybody tells these rows."""
    c = lineage.c
    scan = places[0].leaf.plan
    if not c.is_file_scan(scan) or places[0].dataset.by_row_id:  # told by numbers alone
        return list(told)
    paths = {c.hash64_of_text(path): path for place in places for path in c.files(place.leaf.plan)}
    if has_row_index(c, places[0].leaf):
        return [(file_key(paths[file]), row) for file, row in told]
    if why_not_by_byte(c, scan) is not None:
        return [(file_key(paths[file]), row) for file, row in told]
    by_file: dict[int, list[int]] = defaultdict(list)
    for file, row in told:
        by_file[file].append(row)
    rows = {file: rows_of_file(c, scan, file_key(paths[file])) for file in by_file}
    known = {
        (file, row): int(at)
        for file, some in by_file.items()
        for row, at in zip(some, rows[file].bytes_of(some).tolist(), strict=True)
    }
    return [(file_key(paths[file]), known[file, row]) for file, row in told]


def positions(
    lineage: SqlLineage, places: Sequence[ReadingPlace], ids: Sequence[RecordId], by_byte: bool
) -> list[tuple[int, int]]:
    """(file, row or byte) as this query tells them."""
    c = lineage.c
    scan = places[0].leaf.plan
    paths = {file_key(path): path for place in places for path in c.files(place.leaf.plan)}
    by_file: dict[str, list[int]] = defaultdict(list)
    for file, at in ids:
        if file not in paths:
            raise WhenceError(f"This query does not read {file}.")
        by_file[str(file)].append(int(at))
    found: list[tuple[int, int]] = []
    for file, some in by_file.items():
        number = c.hash64_of_text(paths[file])
        rows = rows_of_file(c, scan, file).positions_of(some).tolist() if by_byte else some
        found += [(number, int(row)) for row in rows]
    return found
