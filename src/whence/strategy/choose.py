"""Which lineage each operator keeps: the least query time for a workload, within limits on disk and run time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from whence.strategy.configs import Config, all_configs, together, worthwhile
from whence.strategy.costs import BACKWARD, DIRECTIONS, Cost
from whence.strategy.errors import Unreachable
from whence.strategy.plan import Plan, Reason
from whence.strategy.solve import Limit, solve
from whence.strategy.text import in_bytes, in_seconds


@dataclass(frozen=True)
class Question:
    """One item of a workload: the operators on any of its ways, and how often it is asked against the others."""

    direction: str
    steps: frozenset[str]
    weight: float = 1.0
    ends: frozenset[str] = frozenset()
    """Where it starts and where it leads, which need not be steps themselves."""

    def __post_init__(self) -> None:
        if self.direction not in DIRECTIONS:
            raise ValueError(f"A question goes backward or forward, not {self.direction!r}.")
        if not 0 <= self.weight < math.inf:
            raise ValueError(f"The weight of a question is a number, zero or more, not {self.weight!r}.")


@dataclass(frozen=True)
class Limits:
    disk: float | None = None
    runtime: float | None = None

    def __post_init__(self) -> None:
        for name, unit, value in (("limit_disk", "bytes", self.disk), ("limit_runtime", "seconds", self.runtime)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float)) or value != value):
                raise TypeError(f"{name} is a number of {unit}, or None for no limit; it is {value!r}.")
            if value is not None and value < 0:
                raise ValueError(f"{name} is a number of {unit}, zero or more; it is {value!r}.")

    @property
    def sums(self) -> list[Limit]:
        found = []
        if self.disk is not None and self.disk < math.inf:
            found.append(Limit("disk", lambda c: c.disk, float(self.disk)))
        if self.runtime is not None and self.runtime < math.inf:
            found.append(Limit("run time", lambda c: c.runtime, float(self.runtime)))
        return found


def choose(
    costs: Mapping[str, Mapping[str, Cost]],
    workload: Sequence[Question] = (),
    limits: Limits | None = None,
    force: Mapping[str, Sequence[str]] | None = None,
    kinds: Mapping[str, str] | None = None,
) -> Plan:
    """`costs`: for each operator each strategy that it could keep. Where `force` names some, just these are kept.

    `kinds`: strategies of different kinds are never kept together; the plan's costs are of the kind that was chosen."""
    limits, force = limits or Limits(), force or {}
    _check(costs, force)
    weights = frequencies(workload, costs)
    tables = {
        step: {s: table[s] for s in dict.fromkeys(force[step])} if step in force else dict(table)
        for step, table in costs.items()
    }
    sums = limits.sums
    steps = sorted(tables)  # the order in which a workflow was put together must not matter
    every = {
        step: [together(tuple(tables[step]), tables[step], weights[step])]
        if step in force
        else all_configs(tables[step], weights[step], kinds)
        for step in steps
    }
    limited = {limit.name for limit in sums}
    options = [worthwhile(every[step], "disk" in limited, "run time" in limited) for step in steps]
    found = solve(options, sums, lambda c: c.query)
    if found is None:
        raise Unreachable(_least(options, sums, bool(force)))
    chosen = dict(zip(steps, found, strict=True))
    room = [(limit, limit.most - math.fsum(map(limit.size, found))) for limit in sums]
    return Plan(
        {step: chosen[step].strategies for step in tables},
        {step: _of_one_kind(table, chosen[step].strategies, kinds or {}) for step, table in tables.items()},
        {step: _reason(chosen[step], every[step], weights[step], room, step in force) for step in tables},
        disk=math.fsum(c.disk for c in found),
        runtime=math.fsum(c.runtime for c in found),
        query=math.fsum(c.query for c in found),
        limit_disk=limits.disk,
        limit_runtime=limits.runtime,
    )


def frequencies(
    workload: Sequence[Question], steps: Mapping[str, object] | Sequence[str]
) -> dict[str, tuple[float, float]]:
    """The part of the workload's weight that passes each operator, backward and forward."""
    total = math.fsum(q.weight for q in workload) or 1.0
    found: dict[str, list[list[float]]] = {step: [[], []] for step in steps}
    for question in workload:
        for step in question.steps:
            if step in found:
                found[step][question.direction != BACKWARD].append(question.weight / total)
    return {step: (math.fsum(both[0]), math.fsum(both[1])) for step, both in found.items()}


def _of_one_kind(table: dict[str, Cost], chosen: Sequence[str], kinds: Mapping[str, str]) -> dict[str, Cost]:
    """What could have been chosen beside the chosen."""
    there = [kinds[s] for s in (*chosen, *sorted(table)) if s in kinds]
    return {s: cost for s, cost in table.items() if s not in kinds or kinds[s] == there[0]}


def _check(costs: Mapping[str, Mapping[str, Cost]], force: Mapping[str, Sequence[str]]) -> None:
    for step, table in costs.items():
        if not table:
            raise ValueError(f"There is no strategy to choose from for {step}.")
    for step, wanted in force.items():
        if step not in costs:
            raise LookupError(f"force names {step!r}, which is no operator here; there are {_listed(costs)}.")
        if not wanted:
            raise ValueError(f"force names no strategy for {step}; leave it out for a free choice.")
        for strategy in wanted:
            if strategy not in costs[step]:
                raise ValueError(f"{step} cannot keep {strategy!r}; it can keep {_listed(costs[step])}.")


def _listed(names: Mapping[str, object]) -> str:
    found = list(names)
    return ", ".join(found[:12]) + (", ..." if len(found) > 12 else "")


def _least(options: Sequence[Sequence[Config]], sums: Sequence[Limit], forced: bool) -> str:
    """The sentence for limits that nothing meets: which one, and what would be possible."""
    show = {"disk": in_bytes, "run time": in_seconds}
    why = " with what was forced" if forced else ""
    for limit in sums:
        least = math.fsum(min(limit.size(c) for c in group) for group in options)
        if least > limit.most:
            return (
                f"No choice of strategies{why} keeps within the limit on {limit.name} of "
                f"{show[limit.name](limit.most)}: the least possible is {show[limit.name](least)}."
            )
    texts = []
    for limit in sums:
        others = [other for other in sums if other is not limit]
        best = solve(options, others, limit.size)
        if best is not None:
            least = math.fsum(limit.size(c) for c in best)
            kept = " and ".join(f"{show[o.name](o.most)} of {o.name}" for o in others)
            texts.append(f"within {kept} the least possible {limit.name} is {show[limit.name](least)}")
    both = " and ".join(f"{show[limit.name](limit.most)} of {limit.name}" for limit in sums)
    return f"No choice of strategies{why} keeps within both {both}: {'; '.join(texts)}."


def _reason(
    chosen: Config,
    every: Sequence[Config],
    weights: tuple[float, float],
    room: Sequence[tuple[Limit, float]],
    forced: bool,
) -> Reason:
    """Why this one, and what the best of the others would cost, if it is not just this one and something more that
    makes nothing faster. `room`: what each limit has left."""
    others = [c for c in every if c.strategies != chosen.strategies]
    possible = others
    for limit, left in room:
        most = limit.size(chosen) + left
        possible = [c for c in possible if limit.size(c) <= most]
    possible = [c for c in possible if c.query < chosen.query or not set(c.strategies) > set(chosen.strategies)]
    better = [c for c in others if c.query < chosen.query]
    if forced:
        why = "forced"
    elif not others:
        why = "the only way"
    elif weights == (0.0, 0.0):
        why = "no question passes here: the least to keep"
    elif better:
        first = _best(better)
        over = " and ".join(
            f"{in_bytes(first.disk)} on disk" if limit.name == "disk" else f"{in_seconds(first.runtime)} of run time"
            for limit, _ in room
        )
        why = f"the best that the limits leave; {' + '.join(first.strategies)} would take {over}"
    else:
        asked = " and ".join(way for way, weight in zip(DIRECTIONS, weights, strict=True) if weight > 0)
        why = f"fastest {asked}"
    best = _best(possible or others) if others else None
    return Reason(why, best, chosen.disk, chosen.runtime, chosen.query)


def _best(configs: Sequence[Config]) -> Config:
    return min(configs, key=lambda c: (c.query, *c.order))
