"""A diagnosis under way: it says which configurations to run (ask), takes the outcomes (tell) and names the causes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from whence.debug.diagnose.causes import Box, Cause, Condition, Evidence, conditions_of, within
from whence.debug.diagnose.errors import AlwaysFails, BadSpace, DiagnoseError, NothingToCompare
from whence.debug.diagnose.options import noise_of, random_of, require_callable, require_number, require_path
from whence.debug.diagnose.planner import Plan
from whence.debug.diagnose.runs import FAILED, Run, as_run, check_agreement, group_kinds, has_succeeded, kind_of
from whence.debug.diagnose.search import Found, Search
from whence.debug.diagnose.space import Codes, Config, Space
from whence.debug.diagnose.store import RunStore

if TYPE_CHECKING:
    from whence.debug.diagnose.report import Report

DEFAULT_BUDGET = 1000
_FLAKY = 0.05
_HOPELESS = 200  # failures without a success after which a search that has no budget gives up
OR = " | "  # between the kinds of failure that one cause shows
_QUIET = 0.01  # bits: exploring stops below this once every cause is confirmed
_WIDEST = {True: 64, False: 300}  # values per ordinal or categorical parameter that the search can weigh one by one


class Diagnosis:
    """Ask and tell::

    d = whence.Diagnosis(space, history)
    while configs := d.ask():
        for config in configs:
            d.tell(config, run_it_somewhere(config))
    d.causes
    """

    def __init__(
        self,
        space: Space | Mapping[str, Iterable[Any]] | Iterable[tuple[str, Iterable[Any]]],
        history: Iterable[object] | None = None,
        *,
        budget: int | None = None,
        valid: Callable[[Config], bool] | None = None,
        flaky: bool | float = False,
        seed: int | None = None,
        cost: Callable[[Config], float] | None = None,
        goal: str = "all",
        store: str | Path | None = None,
    ) -> None:
        if goal not in ("one", "all"):
            raise DiagnoseError(f"goal must be 'one' (stop at the first confirmed cause) or 'all', not {goal!r}.")
        if budget is not None:
            require_number("budget", budget, "of runs")
        require_callable("valid", valid, "of a configuration")
        require_callable("cost", cost, "of a configuration")
        require_path(store)
        if history is not None and not isinstance(history, Iterable):
            raise DiagnoseError(f"The history is a list of pairs (configuration, succeeded), not {history!r}.")
        self.space = Space.of(space)
        for p in self.space.parameters:
            if len(p.values) > _WIDEST[p.ordinal]:
                raise BadSpace(
                    f"The parameter {p.name!r} has {len(p.values)} values; the search weighs up to "
                    f"{_WIDEST[p.ordinal]} of them one by one. Give fewer (for numbers a grid is enough: thresholds "
                    "are found between its values), then diagnose again with a finer grid around the threshold."
                )
        self.budget, self.goal = budget, goal
        self.noise = noise_of(flaky, _FLAKY)
        self.valid, self.cost = valid, cost
        self._rng = random_of(seed)
        self._runs: list[Run] = []
        self._codes: list[Codes] = []
        self._searches: dict[str, Search] = {}
        self._grouping = (0, FAILED)
        self._pending: dict[Codes, Plan] = {}
        self._progress: list[tuple[int, float, int]] = []
        self._causes: tuple[int, tuple[Cause, ...]] | None = None
        self._over = False
        self.cancelled = 0
        self.executions = 0
        taken = [as_run(item) for item in (() if history is None else history)]
        coded = [(self.space.encode(run.config), run) for run in taken]
        if not self.noise:
            check_agreement(coded, self.space)
        for codes, run in coded:
            self._take(codes, run)
        self._store = RunStore(store, self.space) if store is not None else None
        if self._store is not None:
            for codes, run in self._store.runs():
                self._take(codes, run)
                self.executions += 1
        if budget == 0:
            self._need_both()

    # The runs so far

    @property
    def history(self) -> tuple[tuple[Config, bool], ...]:
        """Every run, given and made, as pairs (configuration, succeeded)."""
        return tuple((dict(run.config), run.succeeded) for run in self._runs)

    @property
    def runs(self) -> tuple[Run, ...]:
        return tuple(self._runs)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of failure seen, told apart by their errors."""
        return tuple(self._searches)

    @property
    def observation_only(self) -> bool:
        """True when no run was made: the causes explain the history but nothing was put to the test."""
        return self.executions == 0

    @property
    def progress(self) -> tuple[tuple[int, float, int], ...]:
        """(number of runs, expected bits of the next one, different hypotheses left): how the search went."""
        return tuple(self._progress)

    def _take(self, codes: Codes, run: Run) -> None:
        self._runs.append(run)
        self._codes.append(codes)
        errors = [r.error for r in self._runs if not r.succeeded]
        coarseness = group_kinds(errors)
        named = {kind_of(e, coarseness) for e in errors} - {FAILED}
        # A failure that left no error is of the one kind that is known, if there is just one.
        unnamed = next(iter(named)) if len(named) == 1 else FAILED
        if (coarseness, unnamed) != self._grouping:
            self._grouping = (coarseness, unnamed)
            self._searches.clear()
        kinds = {self._kind(r) for r in self._runs if not r.succeeded}
        for search_kind, search in self._searches.items():
            self._inform(search, search_kind, codes, run)
        for kind in sorted(kinds - set(self._searches)):  # a kind that was not known: its search begins with all runs
            self._searches[kind] = self._search()
            for earlier, r in zip(self._codes, self._runs, strict=True):
                self._inform(self._searches[kind], kind, earlier, r)
        for kind in set(self._searches) - kinds if kinds else ():
            del self._searches[kind]

    def _inform(self, search: Search, kind: str, codes: Codes, run: Run) -> None:
        """Only a success refutes a cause (definition 4): a failure of another kind may have come before this one's."""
        if run.succeeded or self._kind(run) == kind:
            search.tell(codes, not run.succeeded, run.source == "run")
        else:
            search.skip(codes)

    def _kind(self, run: Run) -> str:
        found = kind_of(run.error, self._grouping[0])
        return self._grouping[1] if found == FAILED else found

    def _search(self) -> Search:
        def allowed(codes: Codes) -> bool:
            return self.valid is None or bool(self.valid(self.space.decode(codes)))

        def price(codes: Codes) -> float:
            return float(self.cost(self.space.decode(codes))) if self.cost is not None else 1.0

        return Search(
            self.space,
            np.random.default_rng(int(self._rng.integers(2**32))),
            noise=self.noise,
            valid=allowed if self.valid is not None else None,
            cost=price if self.cost is not None else None,
        )

    def _need_both(self) -> None:
        for wanted, word, other in ((False, "failing", "fails"), (True, "succeeding", "succeeds")):
            if not any(r.succeeded == wanted for r in self._runs):
                raise NothingToCompare(
                    f"The history has no {word} run and the budget is 0, so there is nothing to compare. Add a run "
                    f"that {other} to the history, or give a budget of runs to look for one."
                )

    # Ask and tell

    @property
    def left(self) -> int:
        """Runs that the budget still allows."""
        return max(0, (DEFAULT_BUDGET if self.budget is None else self.budget) - self.executions - len(self._pending))

    def ask(self, count: int = 1) -> list[Config]:
        """Up to `count` configurations to run next; none when the budget is spent or nothing is left to learn."""
        asked = []
        require_number("count", count, "of configurations to ask for")
        for _ in range(count):
            plan = self.plan()
            if plan is None:
                break
            asked.append(self.space.decode(plan.codes))
        return asked

    def plan(self) -> Plan | None:
        if self._over or self.left == 0:
            return None
        if self.budget is None and len(self._runs) >= _HOPELESS and not any(r.succeeded for r in self._runs):
            return None
        if not self._searches:
            self._searches[FAILED] = self._search()
            for codes, run in zip(self._codes, self._runs, strict=True):
                self._searches[FAILED].tell(codes, not run.succeeded, run.source == "run")
        if len(self._searches) > 1:
            # Where only failures without an error are known, any kind may stand.
            known = {k: s.beliefs.boxes(s.beliefs.best()) for k, s in self._searches.items() if k != FAILED}
            for kind, s in self._searches.items():
                s.planner.avoid(box for other, boxes in known.items() if other != kind for box in boxes)
        plans = [p for s in self._asking() if (p := s.plan(self._pending, explore=self._explores())) is not None]
        plan = max(plans, key=lambda p: p.bits, default=None)
        if plan is None or self._is_done(plan):
            self._over = not self._pending
            return None
        left = sum(s.beliefs.different() for s in self._searches.values())
        self._progress.append((len(self._runs), plan.bits, left))
        self._pending[plan.codes] = plan
        return plan

    def _asking(self) -> list[Search]:
        """The searches that have a question of their own: not that of failures without an error when causes of the
        kinds that have one hold all of them."""
        kinds = dict(self._searches)
        if len(kinds) > 1 and FAILED in kinds:
            boxes = [b for kind, s in kinds.items() if kind != FAILED for b in s.beliefs.boxes(s.beliefs.best())]
            unnamed = [
                c for c, r in zip(self._codes, self._runs, strict=True) if not r.succeeded and self._kind(r) == FAILED
            ]
            if all(any(all(c[p] in values for p, values in box) for box in boxes) for c in unnamed):
                del kinds[FAILED]
        return list(kinds.values())

    def _explores(self) -> bool:
        return True

    def _is_done(self, plan: Plan) -> bool:
        if self.goal == "one":
            return self.executions > 0 and self.executions % 4 == 0 and any(f.confirmed for f in self._quick())
        if plan.bits < _QUIET and any(not r.succeeded for r in self._runs):
            return all(f.confirmed for f in self._quick())
        return False

    def tell(
        self, config: Mapping[str, Any], ok: bool, *, error: str | None = None, seconds: float | None = None
    ) -> None:
        """Take the outcome of a run, asked for or not."""
        codes = self.space.encode(config)
        plan = self._pending.pop(codes, None)
        run = Run(
            self.space.decode(codes),
            has_succeeded(ok),
            error,
            seconds,
            "run" if plan else "told",
            plan.purpose if plan else "",
        )
        if not self.noise:
            check_agreement(
                [*((c, r) for c, r in zip(self._codes, self._runs, strict=True) if c == codes), (codes, run)],
                self.space,
            )
        self.executions += 1
        if self._store is not None:
            self._store.add(codes, run)
        self._take(codes, run)

    def drop(self, config: Mapping[str, Any]) -> None:
        """Forget that this run was asked for: it will not be made."""
        if self._pending.pop(self.space.encode(config), None) is not None:
            self.cancelled += 1

    def obsolete(self) -> list[Config]:
        """Runs asked for and not yet told whose cause has been refuted in the meantime."""
        if self.noise:
            return []  # one success refutes nothing
        good = [codes for codes, run in zip(self._codes, self._runs, strict=True) if run.succeeded]
        return [
            self.space.decode(asked)
            for asked, plan in self._pending.items()
            if plan.about is not None and any(all(c[p] in values for p, values in plan.about) for c in good)
        ]

    # Answers

    @property
    def causes(self) -> tuple[Cause, ...]:
        if self._causes is None or self._causes[0] != len(self._runs):
            answers = list(self._answers())
            boxes = [f.box for _, f in answers]
            self._causes = (len(self._runs), tuple(self._name(f, kind, boxes) for kind, f in answers))
        return self._causes[1]

    def _quick(self) -> list[Found]:
        return [f for s in self._asking() for f in s.found(1, exact=False)]

    def _answers(self) -> Iterator[tuple[str, Found]]:
        if not any(r.succeeded for r in self._runs) or all(r.succeeded for r in self._runs):
            return
        found = [
            (kind, f)
            for kind, s in self._searches.items()
            for f in s.found(40 if self.observation_only else 12, everything=self.observation_only)
        ]
        if self.goal == "one" and any(f.confirmed for _, f in found):
            found = [(kind, f) for kind, f in found if f.confirmed]
        merged: dict[Box, tuple[str, Found]] = {}
        for kind, f in found:  # one cause may show in several ways
            if f.box in merged:
                other, g = merged[f.box]
                best = f if f.confirmed or f.share > g.share else g
                merged[f.box] = (f"{other}{OR}{kind}", best)
            else:
                merged[f.box] = (kind, f)
        named = [box for box, (kind, _) in merged.items() if kind != FAILED]
        # A failure that left no error is explained when a cause of a kind that has one holds it.
        found = [(k, f) for k, f in merged.values() if k != FAILED or not any(within(f.box, b) for b in named)]
        yield from sorted(found, key=lambda kf: (not kf[1].confirmed, -kf[1].share, len(kf[1].box)))

    def _name(self, found: Found, kind: str, boxes: list[Box]) -> Cause:
        conditions = conditions_of(found.box, self.space)
        evidence = self._evidence(found.box, conditions, kind, [b for b in boxes if b != found.box])
        tested = not self.observation_only and all(run is not None for _, run in evidence.near_misses)
        return Cause(
            conditions,
            "confirmed" if found.confirmed and tested and evidence.failed > 0 else "consistent",
            round(found.share * (found.certainty if not self.noise else 1.0), 4),
            self._shown(kind, found.box, [b for b in boxes if b != found.box]),
            evidence,
        )

    def _shown(self, kind: str, box: Box, others: list[Box]) -> str | None:
        """The errors that runs showed which no other cause explains: failures without one may have joined the kind."""

        def holds(one: Box, codes: Codes) -> bool:
            return all(codes[p] in values for p, values in one)

        failed = [
            (c, r.error) for c, r in zip(self._codes, self._runs, strict=True) if not r.succeeded and holds(box, c)
        ]
        own = [error for codes, error in failed if not any(holds(other, codes) for other in others)]
        seen = {kind_of(error, self._grouping[0]) for error in own or (error for _, error in failed)} - {FAILED}
        return OR.join(one for one in kind.split(OR) if one in seen) or None

    def _evidence(self, box: Box, conditions: tuple[Condition, ...], kind: str, others: list[Box]) -> Evidence:
        bad = [not r.succeeded and self._kind(r) in kind.split(OR) for r in self._runs]
        inside = [all(codes[p] in values for p, values in box) for codes in self._codes]
        near: list[tuple[Condition, int | None]] = []
        for condition in conditions:
            rest = [c for c in conditions if c.parameter != condition.parameter]
            refuting = [
                i
                for i, run in enumerate(self._runs)
                if run.succeeded and not condition.holds(run.config) and all(c.holds(run.config) for c in rest)
            ]
            near.append((condition, refuting[0] if refuting else None))
        failed = [i for i, hit in enumerate(inside) if hit and bad[i]]
        free = [p for p in range(len(self.space.sizes)) if p not in dict(box)]
        values = [
            (p, v)
            for p in free
            for v in range(self.space.sizes[p])
            if not any(within((*box, (p, frozenset([v]))), other) for other in others)
        ]
        seen = {(p, self._codes[i][p]) for i in failed for p in free}
        return Evidence(
            failed=len(failed),
            succeeded=sum(hit and self._runs[i].succeeded for i, hit in enumerate(inside)),
            near_misses=tuple(near),
            values_tried=sum(value in seen for value in values) / len(values) if values else 1.0,
        )

    def check(self) -> None:
        """Raise when the runs cannot answer: every one of them failed."""
        if self._runs and not any(r.succeeded for r in self._runs):
            raise AlwaysFails(
                f"All {len(self._runs)} runs failed, wherever in the space they were tried, so no setting can be told "
                "from another. Check the pipeline itself (does any configuration work?) and evaluate, or widen the "
                "space. The runs are in the error's .diagnosis.history.",
                self,
            )

    def save(self, store: str | Path | Any, name: str | None = None) -> str:
        """Keep causes and runs in a store (a directory or URL as `attach` takes it, or an attached session); the id."""
        from whence.store import Store
        from whence.store.diagnoses import SavedCause

        causes = [
            SavedCause(tuple((c[0], c[1], c[2]) for c in cause.conditions), cause.status, cause.confidence)
            for cause in self.causes
        ]
        parameters = {p.name: list(p.values) for p in self.space.parameters}
        if hasattr(store, "catalog"):
            return str(store.catalog.diagnoses.save(name, self.executions, parameters, causes, self.history))
        opened = Store.at(store)
        try:
            return opened.catalog.diagnoses.save(name, self.executions, parameters, causes, self.history)
        finally:
            opened.close()

    def report(self) -> Report:
        from whence.debug.diagnose.report import Report

        return Report.of(self)
