"""What the cost model makes of statistics."""

from __future__ import annotations

from dataclasses import replace

import pytest

from whence.strategy import Answered, Kept, Observed, Written
from whence.strategy.arrays import Passing, costs_of, possible
from whence.strategy.steps import Program, Query, program_costs, query_costs

SEEN = Observed(
    "Stars",
    frozenset({"full", "pay", "blackbox"}),
    1_000_000,
    (1_000_000,),
    2.0,
    written=(
        Written("full", 100_000, 1_000_000, 5_000_000, 50_000_000, seconds=0.5),
        Written("pay", 100_000, 1_000_000, 0, 50_000_000, 8000),
    ),
)
FEW = {"backward": Passing(100, 5000), "forward": Passing(100, 5000)}


def test_strategies_follow_from_modes() -> None:
    assert possible(frozenset({"map", "full", "blackbox"})) == ("Map",)
    assert possible(frozenset({"blackbox"})) == ("Blackbox",)
    assert possible(frozenset({"comp", "blackbox"})) == ("Blackbox", "Comp", "Comp:forward")
    assert len(possible(SEEN.modes)) == 11


def test_counts_order_the_strategies_where_nothing_was_measured() -> None:
    costs = costs_of(SEEN, possible(SEEN.modes), FEW)
    assert costs["Blackbox"].disk == costs["Blackbox"].runtime == 0
    assert costs["Blackbox"].backward > 2.0  # the run, and the writing
    assert costs["PayOne"].disk < costs["FullMany"].disk < costs["FullOne:forward"].disk
    assert costs["FullOne"].backward < costs["FullOne"].forward < costs["Blackbox"].forward
    assert costs["FullOne:forward"].forward < costs["FullOne:forward"].backward
    assert all(c.backward <= 2 * costs["Blackbox"].backward for c in costs.values())


def test_what_was_measured_counts_instead() -> None:
    kept = replace(SEEN, kept=(Kept("FullOne", 123, 0.25),))
    cost = costs_of(kept, ["FullOne"], FEW)["FullOne"]
    assert (cost.disk, cost.runtime) == (123, pytest.approx(0.75))  # its own writing, and the encoding


def test_times_lie_on_the_line_between_what_was_asked() -> None:
    points = tuple(
        Answered("Map", "backward", work // 2, work // 2, seconds) for work, seconds in ((200, 0.01), (2200, 0.03))
    )
    seen = replace(SEEN, modes=frozenset({"map", "full"}), answered=points)

    def seconds(work: float, inputs: float = 1.0) -> float:
        return costs_of(seen, ["Map"], {"backward": Passing(work / 2, work / 2, inputs)})["Map"].backward

    assert seconds(1200) == pytest.approx(0.02)
    assert seconds(10) == pytest.approx(0.01)
    assert seconds(4200) == pytest.approx(0.05)
    assert seconds(1200, inputs=2) == pytest.approx(0.04)
    noisy = replace(seen, answered=(*points, Answered("Map", "backward", 5000, 5000, 0.001)))
    assert costs_of(noisy, ["Map"], {"backward": Passing(5000, 5000)})["Map"].backward == pytest.approx(0.03)


def test_whole_arrays_cost_nothing_where_the_operator_says_what_they_mean() -> None:
    whole = {"backward": Passing(1_000_000, 1_000_000)}
    assert costs_of(SEEN, ["FullOne"], whole)["FullOne"].backward > 0.01
    entire = replace(SEEN, entire=True)
    assert costs_of(entire, ["FullOne"], whole)["FullOne"].backward < 0.001
    tried = [Answered(text, "backward", 1_000_000, 1_000_000, 0.003, trial=True) for text in ("Blackbox", "FullOne")]
    costs = costs_of(replace(entire, answered=tuple(tried)), ["Blackbox", "FullOne"], whole)
    assert costs["Blackbox"].backward == costs["FullOne"].backward == 0.003  # as it was tried, and whatever is kept


def test_look_ups_that_differ_by_noise_are_alike() -> None:
    def looked_up(seconds: float) -> float:
        seen = replace(SEEN, answered=(Answered("FullOne", "backward", 1, 1, seconds),))
        return costs_of(seen, ["FullOne"], {"backward": Passing(1, 1)})["FullOne"].backward

    assert looked_up(0.00002) == looked_up(0.00009) == 0.00006
    assert looked_up(0.0019) == looked_up(0.0016)
    assert looked_up(0.010) > looked_up(0.004)


def test_a_step_has_its_share_of_what_a_question_takes_beside_its_steps() -> None:
    seen = replace(SEEN, beside=0.003, answered=(Answered("FullOne", "backward", 1, 1, 0.0008),))
    alone, third = (
        costs_of(seen, ["FullOne", "Blackbox"], {"backward": Passing(1, 1, steps=steps)}) for steps in (1.0, 3.0)
    )
    for strategy in alone:
        assert alone[strategy].backward - third[strategy].backward == pytest.approx(0.002)


def test_what_is_stored_is_left_alone_where_it_takes_longer_than_a_rerun() -> None:
    told = (Answered("FullOne", "backward", 1, 1, 9.0), Answered("Blackbox", "backward", 1, 1, 3.0, trial=True))
    costs = costs_of(replace(SEEN, answered=told), ["FullOne", "Blackbox"], {"backward": Passing(1, 1)})
    assert costs["FullOne"].backward == costs["Blackbox"].backward == 3.0


def test_observations_travel_as_json() -> None:
    whole = replace(SEEN, kept=(Kept("Comp", 1, 2.0),), answered=(Answered("Map", "forward", 1, 2, 3.0, trial=True),))
    assert Observed.from_json(whole.as_json()) == whole


def test_sql_and_rdd_steps_have_costs_too() -> None:
    large = query_costs(Query(60.0, 50_000_000, groups=True))
    assert set(large) == {"rerun", "groups"}
    assert large["groups"].backward < large["rerun"].backward
    assert large["groups"].disk > 0 == large["rerun"].disk
    assert set(query_costs(Query(1, 1, groups=True, uncertain=True))) == {"facts"}
    assert set(query_costs(Query(1, 1, groups=False, written=True, asked=False))) == {"nothing", "write"}
    rdd = program_costs(Program(60.0, 10_000_000, (Kept("stored", 99, 0.0),)))
    assert rdd["stored"].disk == 99
    assert rdd["propagated"].backward < rdd["stored"].backward < rdd["rerun"].backward
