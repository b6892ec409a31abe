"""Questions to the committed log of one actor. Logs are read a batch at a time; answers are sets of records."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from whence.actors.log import BATCH, INPUTS, OUTPUTS, PAIRS
from whence.actors.records import LOCATION, RecordSet, arrow_type, domain_of
from whence.actors.registry import LogDamaged, Part, Registry
from whence.store import Files


def overlap_mask(locations: Any, wanted: Any) -> Any:
    """Which of these locations share a byte with a wanted one."""
    import numpy as np

    files, starts, ends = _ranges(locations)
    wanted_files, wanted_starts, wanted_ends = _ranges(wanted)
    mask = np.zeros(len(files), bool)
    for file in np.intersect1d(files, wanted_files):
        here = np.flatnonzero(files == file)
        there = np.flatnonzero((wanted_files == file) & (wanted_ends > wanted_starts))
        if not len(there):
            continue
        there = there[np.argsort(wanted_starts[there], kind="stable")]
        # merged into disjoint ranges, so that one neighbour decides
        reach = np.maximum.accumulate(wanted_ends[there])
        first = np.concatenate(([True], wanted_starts[there][1:] > reach[:-1]))
        merged_starts = wanted_starts[there][first]
        merged_ends = np.append(reach[np.flatnonzero(first)[1:] - 1], reach[-1])
        neighbour = np.searchsorted(merged_starts, ends[here], side="left") - 1
        mask[here] = (neighbour >= 0) & (merged_ends[neighbour] > starts[here]) & (ends[here] > starts[here])
    return mask


def overlap_pairs(left: Any, right: Any) -> tuple[Any, Any]:
    """Positions (in left, in right) of all overlapping locations: a ghost table (section 5.1)."""
    import numpy as np

    files, starts, ends = _ranges(left)
    other_files, other_starts, other_ends = _ranges(right)
    found_left, found_right = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for file in np.intersect1d(files, other_files):
        here = np.flatnonzero(files == file)
        here = here[np.argsort(starts[here], kind="stable")]
        there = np.flatnonzero(other_files == file)
        # candidates: from the first whose running maximum of ends passes the start, to the last that starts in time
        low = np.searchsorted(np.maximum.accumulate(ends[here]), other_starts[there], side="right")
        high = np.searchsorted(starts[here], other_ends[there], side="left")
        count = np.maximum(high - low, 0)
        rows = np.repeat(there, count)
        offsets = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        candidates = here[np.repeat(low, count) + offsets]
        meets = (
            (ends[candidates] > other_starts[rows])
            & (starts[candidates] < other_ends[rows])
            & (ends[candidates] > starts[candidates])
            & (other_ends[rows] > other_starts[rows])
        )
        found_left.append(candidates[meets])
        found_right.append(rows[meets])
    return np.concatenate(found_left), np.concatenate(found_right)


def _ranges(locations: Any) -> tuple[Any, Any, Any]:
    import numpy as np

    files, offsets, lengths = locations.flatten()
    starts = offsets.to_numpy(zero_copy_only=False)
    return (
        files.to_numpy(zero_copy_only=False).astype(object),
        starts,
        starts + lengths.to_numpy(zero_copy_only=False).astype(np.int64),
    )


def matches(array: Any, wanted: RecordSet) -> Any:
    """Boolean numpy mask: which of these records are wanted (equal, or, for locations, overlapping)."""
    import numpy as np
    import pyarrow.compute as pc

    domain = domain_of(array)
    if domain not in wanted.arrays:
        return np.zeros(len(array), bool)
    if domain == LOCATION:
        return overlap_mask(array, wanted.arrays[domain])
    return pc.is_in(array, value_set=wanted.arrays[domain]).to_numpy(zero_copy_only=False)


@dataclass(frozen=True)
class Multiplicity:
    """How many outputs each input had, in one instance (task) of an actor. Inputs: an Arrow array, counts: numpy."""

    task: str
    inputs: Any
    counts: Any


class ActorLog:
    def __init__(self, files: Files, registry: Registry, actor: str) -> None:
        self._files, self._actor = files, actor
        self._path = registry.specs[actor].path
        self._sound: set[str] = set()
        self.parts = registry.parts(actor)

    def __len__(self) -> int:
        return sum(p.rows for p in self.parts if p.kind != INPUTS)

    def _batches(self, part: Part, columns: list[str] | None = None) -> Iterator[Any]:
        import pyarrow.parquet as pq

        rows = 0
        try:
            with self._files.open("logs", self._actor, part.file) as data:
                self._check(part, data)
                for batch in pq.ParquetFile(data).iter_batches(batch_size=BATCH * 8, columns=columns):
                    rows += batch.num_rows
                    yield batch
            if rows != part.rows:
                raise ValueError(f"it has {rows} associations of {part.rows}")
        except (OSError, ValueError, KeyError) as failed:  # Arrow's errors are ValueErrors, or of the file system
            raise LogDamaged(self._path, f"logs/{self._actor}/{part.file}", failed) from failed

    def _check(self, part: Part, data: Any) -> None:
        if part.bytes is None or part.file in self._sound:
            return
        if data.size() != part.bytes:
            raise ValueError(f"it has {data.size()} bytes of {part.bytes}")
        found = 0
        while some := data.read(1 << 20):
            found = zlib.crc32(some, found)
        if found != part.crc32:
            raise ValueError("its contents were changed")
        data.seek(0)
        self._sound.add(part.file)

    def check(self) -> bool:
        """Every part against its checksum and its count; False if some are of before there were any."""
        for part in self.parts:
            for _ in self._batches(part):
                pass
        return all(part.bytes is not None for part in self.parts)

    def _paired_logs(self) -> Iterator[tuple[list[Part], list[Part]]]:
        logs: dict[str, tuple[list[Part], list[Part]]] = {}
        for part in self.parts:
            if part.kind != PAIRS:
                log = logs.setdefault(part.file.rpartition("-")[0], ([], []))
                log[part.kind == OUTPUTS].append(part)
        yield from logs.values()

    def step(self, records: RecordSet, direction: str) -> tuple[RecordSet, RecordSet]:
        """(those of the records that are here, what they are associated with on the other side)."""
        import numpy as np
        import pyarrow as pa

        near, far = ("output", "input") if direction == "backward" else ("input", "output")
        here: list[Any] = []
        there: list[Any] = []
        for part in self.parts:
            if part.kind == PAIRS and _may_match(part.domains[0 if near == "input" else 1], records):
                for batch in self._batches(part):
                    mask = pa.array(matches(batch.column(near), records))
                    here.append(batch.column(near).filter(mask))
                    there.append(batch.column(far).filter(mask))
        for inputs, outputs in self._paired_logs():
            near_parts, far_parts = (outputs, inputs) if near == "output" else (inputs, outputs)
            sets: list[Any] = []
            times: list[Any] = []
            for part in near_parts:
                for batch in self._batches(part):
                    mask = matches(batch.column(near), records)
                    here.append(batch.column(near).filter(pa.array(mask)))
                    sets.append(batch.column("set").to_numpy()[mask])
                    times.append(batch.column("time").to_numpy()[mask])
            bound_sets, bounds = _bounds(sets, times, latest=near == "output")
            if not len(bound_sets):
                continue
            for part in far_parts:
                for batch in self._batches(part):
                    far_sets, far_times = batch.column("set").to_numpy(), batch.column("time").to_numpy()
                    at = np.minimum(np.searchsorted(bound_sets, far_sets), len(bound_sets) - 1)
                    in_time = far_times < bounds[at] if near == "output" else far_times > bounds[at]
                    there.append(batch.column(far).filter(pa.array((bound_sets[at] == far_sets) & in_time)))
        return RecordSet(here), RecordSet(there)

    def pairs(
        self, inputs: RecordSet | None = None, outputs: RecordSet | None = None
    ) -> Iterator[tuple[str, Any, Any]]:
        """Task, inputs, outputs: aligned arrays, restricted to the given records; paired capture is spelled out."""
        import numpy as np
        import pyarrow as pa

        for task, i, o in self._all_pairs():
            mask = np.ones(len(i), bool)
            if inputs is not None:
                mask &= matches(i, inputs)
            if outputs is not None:
                mask &= matches(o, outputs)
            if mask.any():
                yield (task, i, o) if mask.all() else (task, i.filter(pa.array(mask)), o.filter(pa.array(mask)))

    def _all_pairs(self) -> Iterator[tuple[str, Any, Any]]:
        for part in self.parts:
            if part.kind == PAIRS:
                for batch in self._batches(part):
                    yield part.task, batch.column("input"), batch.column("output")
        for inputs, outputs in self._paired_logs():
            for i_part in inputs:
                for o_part in outputs:
                    yield from self._expand(i_part, o_part)

    def _expand(self, i_part: Part, o_part: Part) -> Iterator[tuple[str, Any, Any]]:
        """Each output meets a prefix, in time, of the inputs of its set."""
        import numpy as np

        i_sets, i_times, i_records = self._sorted(i_part, "input")
        for batch in self._batches(o_part):
            o_sets, o_times = batch.column("set").to_numpy(), batch.column("time").to_numpy()
            low, count = _prefixes(i_sets, i_times, o_sets, o_times)
            for rows in _slices(count):
                chosen = count[rows]
                offsets = np.arange(chosen.sum()) - np.repeat(np.cumsum(chosen) - chosen, chosen)
                at = np.repeat(low[rows], chosen) + offsets
                who = np.repeat(np.arange(rows.start, rows.stop), chosen)
                if len(at):
                    yield i_part.task, i_records.take(at), batch.column("output").take(who)

    def _sorted(self, part: Part, column: str) -> tuple[Any, Any, Any]:
        import numpy as np
        import pyarrow as pa

        batches = list(self._batches(part))
        sets = np.concatenate([b.column("set").to_numpy() for b in batches])
        times = np.concatenate([b.column("time").to_numpy() for b in batches])
        order = np.lexsort((times, sets))
        records = pa.concat_arrays([b.column(column) for b in batches])
        return sets[order], times[order], records.take(pa.array(order))

    def all_records(self, side: str) -> RecordSet:
        """Every record on one side ("input" or "output")."""
        arrays = []
        for part in self.parts:
            if part.kind == PAIRS or part.kind == side + "s":
                arrays += [batch.column(side) for batch in self._batches(part, [side])]
        return RecordSet(arrays)

    def multiplicities(
        self, inputs: RecordSet | None = None, outputs: RecordSet | None = None
    ) -> Iterator[Multiplicity]:
        """Outputs of each input, for each task; restricted to associations between the given records, if given."""
        import numpy as np
        import pyarrow as pa

        chunks: dict[tuple[str, str], list[Any]] = {}
        if outputs is None:
            for part in self.parts:
                if part.kind == PAIRS:
                    chunks.setdefault((part.task, part.domains[0]), []).extend(
                        b.column("input") for b in self._batches(part, ["input"])
                    )
        else:
            for task, i, _ in self.pairs(inputs, outputs):
                chunks.setdefault((task, domain_of(i)), []).append(i)
        for (task, _), arrays in chunks.items():
            values, counts = _counted(pa.concat_arrays(arrays))
            yield _restricted(Multiplicity(task, values, counts), inputs)
        if outputs is not None:
            return
        for i_parts, o_parts in self._paired_logs():
            for i_part in i_parts:
                i_sets, i_times, records = self._sorted(i_part, "input")
                total = np.zeros(len(i_sets), np.int64)
                for o_part in o_parts:
                    o_sets, o_times, _ = self._sorted(o_part, "output")
                    total += _suffixes(i_sets, i_times, o_sets, o_times)
                yield _restricted(Multiplicity(i_part.task, records, total), inputs)


def _may_match(domain: str, records: RecordSet) -> bool:
    return domain in records.arrays


def _restricted(found: Multiplicity, inputs: RecordSet | None) -> Multiplicity:
    import pyarrow as pa

    if inputs is None:
        return found
    mask = matches(found.inputs, inputs)
    return Multiplicity(found.task, found.inputs.filter(pa.array(mask)), found.counts[mask])


def _counted(array: Any) -> tuple[Any, Any]:
    import pyarrow as pa

    if domain_of(array) != LOCATION:
        values, counts = array.value_counts().flatten()
        return values, counts.to_numpy()
    names = ["file", "offset", "length"]
    table = pa.Table.from_arrays(array.flatten(), names=names).group_by(names).aggregate([([], "count_all")])
    types = [arrow_type(LOCATION).field(n).type for n in names]
    fields = [pa.chunked_array(table.column(n).chunks, t).combine_chunks() for n, t in zip(names, types, strict=True)]
    return pa.StructArray.from_arrays(fields, names=names), table.column("count_all").to_numpy()


def _bounds(sets: list[Any], times: list[Any], latest: bool) -> tuple[Any, Any]:
    import numpy as np

    if not sets:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    all_sets, all_times = np.concatenate(sets), np.concatenate(times)
    order = np.lexsort((-all_times if latest else all_times, all_sets))
    unique, first = np.unique(all_sets[order], return_index=True)
    return unique, all_times[order][first]


def _rank(sets: Any, times: Any, wanted_sets: Any, wanted_times: Any) -> Any:
    """How many of the sorted (set, time) lie before each wanted one."""
    import numpy as np

    scale = np.int64(max(int(times.max(initial=0)), int(wanted_times.max(initial=0))) + 1)
    return np.searchsorted(sets * scale + times, wanted_sets * scale + wanted_times, side="left")


def _prefixes(i_sets: Any, i_times: Any, o_sets: Any, o_times: Any) -> tuple[Any, Any]:
    import numpy as np

    low = np.searchsorted(i_sets, o_sets, side="left")
    return low, _rank(i_sets, i_times, o_sets, o_times) - low


def _suffixes(i_sets: Any, i_times: Any, o_sets: Any, o_times: Any) -> Any:
    import numpy as np

    return np.searchsorted(o_sets, i_sets, side="right") - _rank(o_sets, o_times, i_sets, i_times)


def _slices(count: Any) -> Iterator[slice]:
    """Cut rows so that what they expand to stays around a million at a time."""
    import numpy as np

    total = np.cumsum(count)
    start = 0
    while start < len(count):
        before = total[start - 1] if start else 0
        stop = max(int(np.searchsorted(total, before + 8 * BATCH, side="right")), start + 1)
        yield slice(start, stop)
        start = stop
