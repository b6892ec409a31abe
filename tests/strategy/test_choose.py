"""The choice is optimal over its own table: every subset of every operator's strategies is tried beside it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, combinations, product

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from whence.strategy import Cost, Limits, NoSuchStep, Question, Unreachable, choose

Costs = Mapping[str, Mapping[str, Cost]]


def subsets(names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    return chain.from_iterable(combinations(names, n) for n in range(1, len(names) + 1))


def queried(costs: Costs, workload: Sequence[Question], chosen: Mapping[str, Sequence[str]]) -> float:
    """The contract's formula, word by word."""
    total = sum(q.weight for q in workload) or 1.0
    found = 0.0
    for question in workload:
        for step in question.steps:
            found += question.weight / total * min(costs[step][s].query(question.direction) for s in chosen[step])
    return found


def brute(costs: Costs, workload: Sequence[Question], limits: Limits, force: Mapping[str, Sequence[str]]) -> float:
    """The least query time of all choices within the limits; infinity when there is none."""
    ways = [[tuple(force[s])] if s in force else list(subsets(list(costs[s]))) for s in costs]
    best = math.inf
    for picked in product(*ways):
        chosen = dict(zip(costs, picked, strict=True))
        disk = math.fsum(costs[s][n].disk for s in costs for n in chosen[s])
        runtime = math.fsum(costs[s][n].runtime for s in costs for n in chosen[s])
        if limits.disk is not None and disk > limits.disk:
            continue
        if limits.runtime is not None and runtime > limits.runtime:
            continue
        best = min(best, queried(costs, workload, chosen))
    return best


# few distinct values, so that ties and limits that are met to the byte come often
whole = st.integers(0, 6).map(float)
real = st.floats(0, 1e6, allow_nan=False)
cost = st.one_of(
    st.builds(Cost, whole, whole, whole, whole),
    st.builds(Cost, st.integers(0, 10**9), real, real, real),
)


@st.composite
def problems(draw: st.DrawFn) -> tuple[Costs, list[Question], Limits, dict[str, tuple[str, ...]]]:
    steps = [f"s{n}" for n in range(draw(st.integers(1, 3)))]
    costs = {
        step: {name: draw(cost) for name in draw(st.lists(st.sampled_from("ABCD"), min_size=1, unique=True))}
        for step in steps
    }
    questions = st.builds(
        Question,
        st.sampled_from(["backward", "forward"]),
        st.frozensets(st.sampled_from(steps), min_size=1),
        st.one_of(st.just(1.0), st.floats(0, 100)),
    )
    workload = draw(st.lists(questions, max_size=4))
    forced = draw(st.lists(st.sampled_from(steps), unique=True, max_size=1))
    force = {
        step: tuple(draw(st.lists(st.sampled_from(sorted(costs[step])), min_size=1, unique=True))) for step in forced
    }
    sums = [
        sum(c.disk for t in costs.values() for c in t.values()),
        sum(c.runtime for t in costs.values() for c in t.values()),
    ]
    disk, runtime = (
        draw(
            st.one_of(
                st.none(), st.integers(0, 12).map(float), st.floats(0, 1).map(lambda part, all_=all_: part * all_)
            )
        )
        for all_ in sums
    )
    return costs, workload, Limits(disk, runtime), force


@settings(max_examples=250, deadline=None)
@given(problems())
def test_no_other_choice_within_the_limits_has_less_query_time(problem: tuple) -> None:
    costs, workload, limits, force = problem
    best = brute(costs, workload, limits, force)
    if best == math.inf:
        with pytest.raises(Unreachable, match="least possible"):
            choose(costs, workload, limits, force)
        return
    plan = choose(costs, workload, limits, force)
    assert plan.query == pytest.approx(best, rel=1e-9, abs=1e-12)
    assert plan.query == pytest.approx(queried(plan.costs, workload, plan), rel=1e-12, abs=1e-15)
    kept = [plan.costs[s][n] for s in plan for n in plan[s]]
    assert plan.disk == pytest.approx(math.fsum(c.disk for c in kept))
    assert plan.runtime == pytest.approx(math.fsum(c.runtime for c in kept))
    assert limits.disk is None or plan.disk <= limits.disk
    assert limits.runtime is None or plan.runtime <= limits.runtime
    assert all(set(plan[s]) == set(wanted) for s, wanted in force.items())
    again = choose({s: dict(reversed(costs[s].items())) for s in reversed(costs)}, workload, limits, force)
    assert dict(again.chosen) == dict(plan.chosen)


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 10**6), st.booleans())
def test_many_operators_are_chosen_as_well_as_by_a_plain_programme(seed: int, both: bool) -> None:
    """Thirty operators are too many for every subset: the same problem in the paper's own variables is the judge."""
    import random

    drawn = random.Random(seed)
    costs = {
        f"s{n:02}": {
            "Blackbox": Cost(0, 0, drawn.uniform(1, 9), drawn.uniform(1, 9)),
            **{
                f"S{k}": Cost(drawn.randrange(1, 10**6), drawn.random(), drawn.random(), drawn.random())
                for k in range(5)
            },
        }
        for n in range(30)
    }
    workload = [Question("backward", frozenset(costs)), Question("forward", frozenset(costs), 0.5)]
    limits = Limits(drawn.uniform(0, 5e6), drawn.uniform(0, 5) if both else None)
    plan = choose(costs, workload, limits)
    assert plan.query == pytest.approx(papers_programme(costs, (2 / 3, 1 / 3), limits), rel=1e-6)
    assert plan.disk <= (limits.disk or 0)


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 10**6), st.booleans())
def test_a_hundred_operators_are_chosen_the_same_with_and_without_the_integer_programme(
    monkeypatch: pytest.MonkeyPatch, seed: int, both: bool
) -> None:
    import random

    from whence.strategy import solve

    drawn = random.Random(seed)
    costs = {
        f"s{n:03}": {
            "Blackbox": Cost(0, 0, drawn.uniform(1, 9), drawn.uniform(1, 9)),
            **{
                f"S{k}": Cost(drawn.randrange(1, 10**6), drawn.random(), drawn.random(), drawn.random())
                for k in range(7)
            },
        }
        for n in range(100)
    }
    workload = [Question("backward", frozenset(costs)), Question("forward", frozenset(costs), 0.5)]
    limits = Limits(drawn.uniform(1e6, 2e7), drawn.uniform(5, 30) if both else None)
    plan = choose(costs, workload, limits)
    with monkeypatch.context() as patched:
        patched.setattr(solve, "grown", lambda options, known: None)
        assert plan.query == pytest.approx(choose(costs, workload, limits).query, rel=1e-9)


def papers_programme(costs: Costs, weights: tuple[float, float], limits: Limits) -> float:
    """Section VII with x for what is kept and y for what answers: y <= x, one y for each operator and direction."""
    import numpy as np
    from scipy.optimize import Bounds, LinearConstraint, milp

    flat = [(s, n) for s in costs for n in costs[s]]
    count = len(flat)
    goal = np.zeros(3 * count)
    rows, low, high = [], [], []
    for k, (s, n) in enumerate(flat):
        goal[count + k], goal[2 * count + k] = weights[0] * costs[s][n].backward, weights[1] * costs[s][n].forward
        for way in (1, 2):
            row = np.zeros(3 * count)
            row[way * count + k], row[k] = 1, -1
            rows.append(row), low.append(-np.inf), high.append(0)
    for s in costs:
        for way in (1, 2):
            row = np.zeros(3 * count)
            row[[way * count + k for k, (other, _) in enumerate(flat) if other == s]] = 1
            rows.append(row), low.append(1), high.append(1)
    for limit, size in ((limits.disk, "disk"), (limits.runtime, "runtime")):
        if limit is not None:
            row = np.zeros(3 * count)
            row[:count] = [getattr(costs[s][n], size) / (limit or 1) for s, n in flat]
            rows.append(row), low.append(-np.inf), high.append(1 if limit else 0)
    answer = milp(
        goal,
        integrality=np.r_[np.ones(count), np.zeros(2 * count)],
        bounds=Bounds(0, 1),
        constraints=LinearConstraint(np.array(rows), low, high),
        options={"mip_rel_gap": 1e-9},
    )
    return float(answer.fun)


BLACKBOX = Cost(0, 0, 2.0, 3.0)
COSTS = {
    "blur": {"Map": Cost(0, 0, 0.001, 0.001)},
    "stars": {
        "Blackbox": BLACKBOX,
        "FullOne": Cost(5_000_000, 0.4, 0.01, 1.0),
        "FullMany": Cost(2_000_000, 0.2, 0.03, 1.0),
    },
}
BACK = [Question("backward", frozenset(COSTS))]


def test_more_room_never_makes_questions_slower_and_the_least_is_kept_among_equals() -> None:
    tight, middle, free = (choose(COSTS, BACK, Limits(disk=disk)) for disk in (0, 2_000_000, None))
    assert (tight["stars"], middle["stars"], free["stars"]) == (("Blackbox",), ("FullMany",), ("FullOne",))
    assert tight.query > middle.query > free.query
    assert choose(COSTS, [], Limits())["stars"] == ("Blackbox",)  # nobody asks: nothing is kept


def test_one_byte_too_few_is_too_few() -> None:
    assert choose(COSTS, BACK, Limits(disk=1_999_999))["stars"] == ("Blackbox",)
    many = {f"s{n}": {"Blackbox": BLACKBOX, "FullOne": Cost(10_000_001, 0, 0.1, 0.1)} for n in range(20)}
    workload = [Question("backward", frozenset(many))]
    plan = choose(many, workload, Limits(disk=100_000_009))  # ten would be a millionth of a percent too much
    assert sum(plan[s] == ("FullOne",) for s in plan) == 9


def test_two_strategies_are_kept_where_each_serves_one_direction() -> None:
    costs = {"s": {"Blackbox": BLACKBOX, "FullOne": Cost(10, 0, 0.1, 9), "FullOne:forward": Cost(10, 0, 9, 0.1)}}
    workload = [Question("backward", frozenset("s")), Question("forward", frozenset("s"))]
    assert choose(costs, workload)["s"] == ("FullOne", "FullOne:forward")
    assert choose(costs, workload, Limits(disk=10))["s"] == ("Blackbox", "FullOne:forward")


def test_a_plan_prints_what_was_chosen_why_what_it_costs_and_what_is_next() -> None:
    text = str(choose(COSTS, BACK, Limits(disk=3_000_000)))
    stars = next(line for line in text.splitlines() if line.startswith("stars"))
    assert "FullMany" in stars
    assert "2 MB" in stars
    assert "FullOne would take 5 MB on disk" in stars
    assert "Blackbox: 0 bytes, 0 s, query 2 s" in stars
    assert text.splitlines()[-1].startswith("2 MB on disk (limit 3 MB), 200 ms added to a run")
    assert "no question passes here" in str(choose(COSTS, []))
    assert "forced" in str(choose(COSTS, BACK, force={"stars": ["Blackbox"]}))


def test_limits_that_nothing_meets_name_the_limit_and_the_least_possible() -> None:
    with pytest.raises(Unreachable, match=r"with what was forced .* limit on disk of 1 kB: the least possible is 5 MB"):
        choose(COSTS, BACK, Limits(disk=1000), {"stars": ["FullOne"]})
    costs = {"s": {"A": Cost(10, 0, 1, 1), "B": Cost(0, 10, 1, 1)}}
    with pytest.raises(
        Unreachable, match=r"both 5 bytes of disk and 5 s of run time: within 5 s of run time the least"
    ):
        choose(costs, [], Limits(5, 5))


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: Limits(disk=-1), ValueError, "limit_disk is a number of bytes, zero or more"),
        (lambda: Limits(runtime=float("nan")), TypeError, "limit_runtime is a number of seconds"),
        (lambda: Limits(disk="10 MB"), TypeError, "limit_disk is a number of bytes"),
        (lambda: Question("sideways", frozenset("s")), ValueError, "backward or forward, not 'sideways'"),
        (lambda: Question("backward", frozenset("s"), -1), ValueError, "weight of a question"),
        (lambda: choose(COSTS, force={"moon": ["FullOne"]}), LookupError, "'moon', which is no operator here"),
        (lambda: choose(COSTS, force={"stars": ["Magic"]}), ValueError, "stars cannot keep 'Magic'; it can keep Black"),
        (lambda: choose(COSTS, force={"stars": []}), ValueError, "no strategy for stars"),
        (lambda: choose({"s": {}}), ValueError, "no strategy to choose from for s"),
        (lambda: Cost(-1, 0, 0, 0), ValueError, "finite and not negative"),
        (lambda: choose(COSTS)["moon"], NoSuchStep, "says nothing of 'moon'; it is for blur, stars"),
    ],
)
def test_bad_input_is_a_sentence(call, error, says) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(error, match=says):
        call()
