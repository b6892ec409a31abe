"""Samples for mining from the logs of actors, winnowed by a bad and by good outputs (figure 6)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from whence.actors import ActorSpec, ActorStore, Multiplicity, RecordSet, TracingTable
from whence.debug.mining.mined import Cause, Mined, Sample, mine_samples


def mine_actors(store: ActorStore, root: Any, bad: Any = None, good: Any = (), alpha: float = 0.05) -> Mined:
    """With a bad output only the instances on its trace are considered; with good ones too, only inputs in the lineage
    of the bad or of a good output. A root that contains nothing stands for what leads to it.

    How many outputs such an input has is still counted in full: the lineage of one bad output holds one of the thousand
    outputs that betray the faulty input.
    """
    return mine_samples(_Samples(store, root, bad, good), alpha)


class _Samples:
    def __init__(self, store: ActorStore, root: Any, bad: Any, good: Any) -> None:
        self._store = store
        self._registry = store.registry()
        self._root = store.find(root)
        self._bad: dict[str, TracingTable] | None = None if bad is None else self._steps([bad])
        self._good = self._steps(list(good)) if len(good) and bad is not None else {}
        self._where: dict[int, tuple[str, str, list[Any]]] = {}

    def _steps(self, records: Any) -> dict[str, TracingTable]:
        return {s.actor.id: s for s in self._store.trace(records, root=self._root).steps if s.actor.kind != "ghost"}

    def _actors(self) -> list[ActorSpec]:
        """Feeders first."""
        edges = self._registry.edges()
        inside = {self._root.id, *(s.id for s in self._registry.within(self._root.id))}
        if len(inside) == 1:
            while more := {a for a, b in edges if b in inside} - inside:
                inside |= more
        inside |= set(self._bad or ())
        depth = dict.fromkeys(inside, 0)
        for _ in range(len(inside)):
            longer = {b: depth[a] + 1 for a, b in edges if a in depth and b in depth and depth[b] <= depth[a]}
            if not longer:
                break
            depth.update(longer)
        self._depth = depth
        return sorted(
            (self._registry.specs[a] for a in inside if self._registry.has_log(a)), key=lambda s: (depth[s.id], s.path)
        )

    def __iter__(self) -> Iterator[Sample]:
        for spec in self._actors():
            log = self._store.log(spec)
            considered: set[str] | None = None
            inputs = None
            if self._bad is not None:
                step = self._bad.get(spec.id)
                considered = set() if step is None else {t for t, _, _ in log.pairs(step.inputs, step.outputs)}
                if step is not None and self._good:
                    other = self._good.get(spec.id)
                    inputs = step.inputs if other is None else step.inputs | other.inputs
            container, _, name = spec.path.rpartition("/")
            one_task = len({p.task for p in log.parts}) == 1
            for task, arrays, counts in _by_task(log.multiplicities(inputs)):
                operator, instance = (f"{container}/{spec.kind}".lstrip("/"), name) if one_task else (spec.path, task)
                sample = Sample(
                    operator, instance, counts, partial(_record, arrays), considered is None or task in considered,
                    self._depth[spec.id], self._recounter(spec, task, arrays, counts, inputs),
                )  # fmt: skip
                self._where[id(sample.counts)] = (spec.id, task, arrays)
                yield sample

    def _recounter(
        self, spec: ActorSpec, task: str, arrays: list[Any], counts: Any, inputs: RecordSet | None
    ) -> Callable[[Sequence[Cause]], Any]:  # fmt: skip
        """Counts without the outputs that causes led to. An input that itself comes from a cause keeps its count: how
        many outputs it has is this actor's doing."""

        def recount(causes: Sequence[Cause]) -> Any:
            import numpy as np
            import pyarrow.compute as pc

            from whence.actors.read import matches

            led_in, led_out = RecordSet(), RecordSet()
            for cause in causes:
                actor, _, cause_arrays = self._where[id(cause.sample.counts)]
                records = RecordSet([a.take(p) for a, p in _positions(cause_arrays, cause.positions)])
                for step in self._store.trace(records, "forward", root=self._registry.specs[actor]).steps:
                    if step.actor.id == spec.id:
                        led_in, led_out = led_in | step.inputs, led_out | step.outputs
            if not len(led_out):
                return counts
            removed = [np.zeros(len(a), np.int64) for a in arrays]
            for found, i, _ in self._store.log(spec).pairs(inputs, led_out):
                if found != task:
                    continue
                for n, array in enumerate(arrays):
                    if array.type == i.type and not _is_struct(array):
                        at = pc.index_in(i, value_set=array).drop_null().to_numpy()
                        removed[n] += np.bincount(at, minlength=len(array))
            kept = np.concatenate([matches(a, led_in) for a in arrays])
            less = np.where(kept, counts, counts - np.concatenate(removed))
            return less[(less > 0) | (counts == 0)]  # what has no other outputs says nothing about this actor

        return recount


def _is_struct(array: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_struct(array.type))


def _by_task(found: Iterator[Multiplicity]) -> Iterator[tuple[str, list[Any], Any]]:
    """One task may have inputs in several domains (ints and strings); they are one instance."""
    import numpy as np

    by_task: dict[str, list[Multiplicity]] = {}
    for multiplicity in found:
        if len(multiplicity.counts):
            by_task.setdefault(multiplicity.task, []).append(multiplicity)
    for task, several in by_task.items():
        yield task, [m.inputs for m in several], np.concatenate([m.counts for m in several])


def _positions(arrays: list[Any], positions: Any) -> Iterator[tuple[Any, Any]]:
    start = 0
    for array in arrays:
        chosen = positions[(positions >= start) & (positions < start + len(array))] - start
        if len(chosen):
            yield array, chosen
        start += len(array)


def _record(arrays: list[Any], n: int) -> Any:
    from whence.actors.records import to_names

    for array in arrays:
        if n < len(array):
            return to_names(array.slice(n, 1))[0]
        n -= len(array)
    raise IndexError(n)
