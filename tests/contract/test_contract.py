"""What every front end promises (model/flow.py), against one naive oracle."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import whence
from contract.front_ends import Actors, Arrays, ArraysForward, ArraysInIntervals, ArraysRunAgain, Case, Rdds, Sql
from contract.naive import (
    Both,
    Change,
    Keep,
    Made,
    Meet,
    Once,
    Program,
    Read,
    Repeat,
    Tables,
    Total,
    touched,
    witnesses,
)
from whence.debug.crossing import forward_all

TABLES: Tables = {
    "a": [(0, 1), (1, 2), (1, 2), (2, 3), (5, -1), (4, 4)],
    "b": [(1, 1), (2, 2), (2, 5), (7, 2)],
}
A, B = Read("a"), Read("b")
PROGRAMS: dict[str, Program] = {
    "keep": Keep(A, 2),
    "change": Change(A, 3),
    "repeat": Repeat(A),
    "both": Both(A, B),
    "itself twice": Both(A, Keep(A, 2)),
    "meet": Meet(A, B),
    "meet itself": Meet(A, A),
    "total": Total(A),
    "once": Once(Change(A, 0)),
    "total of repeated": Total(Repeat(Change(A, 1))),
    "meet of totals": Meet(Total(A), Total(Repeat(B))),
    "total of a union": Total(Both(Keep(A, 2), Change(B, 0))),
    "once of a join": Once(Change(Meet(A, B), 0)),
    "nothing": Keep(A, 100),
    "total of total": Total(Change(Total(A), 0)),
}

FrontEnd = Callable[[whence.Session, Path, Program, Tables], Case]
FRONT_ENDS: dict[str, FrontEnd] = {
    "sql": Sql,
    "rdd": Rdds,
    "actors": Actors,
    "arrays": Arrays,
    "arrays forward": ArraysForward,
    "arrays in intervals": ArraysInIntervals,
    "arrays run again": ArraysRunAgain,
}


@pytest.mark.parametrize("front_end", FRONT_ENDS)
class TestFlowContract:
    @pytest.mark.parametrize("name", PROGRAMS)
    def test_both_ways(self, w: whence.Session, tmp_path: Path, front_end: str, name: str) -> None:
        program = PROGRAMS[name]
        made = program.run(TABLES)
        case = FRONT_ENDS[front_end](w, tmp_path, program, TABLES)
        self.backward(case, made)
        self.forward(case, made)

    def backward(self, case: Case, made: list[Made]) -> None:
        values = sorted({value for value, _ in made})
        questions = [set(some) for some in dict.fromkeys(map(tuple, (values[:1], values, values[1::2]))) if some]
        assert bool(questions) == bool(made)
        for asked in questions:
            flow, records = case.ask(asked)
            answer = flow.backward(records)
            told = [case.source(site, one) for site, some in answer.found.items() for one in some.ids()]
            assert len(told) == len(set(told)), "each record once"
            assert set(told) == witnesses(made, asked)
            assert sum(some.count() for some in answer.found.values()) == len(told)
            assert (answer.widened, answer.ended) == ((), ())
            again = flow.backward(records)
            assert {s: sorted(r.ids()) for s, r in again.found.items()} == {
                s: sorted(r.ids()) for s, r in answer.found.items()
            }

    def forward(self, case: Case, made: list[Made]) -> None:
        flow = case.flow()
        read = sorted({source for _, sources in made for source in sources}) or [("a", 0)]
        for seeds in dict.fromkeys(map(tuple, (read[:1], read[1::2] or read, [("a", 0)]))):
            given = case.seeds(flow, seeds)
            assert given, "every program reads what it is asked from"
            answer = forward_all(flow, given)
            output = case.output(flow)
            found = case.values(flow, answer.found[output]) if output in answer.found else []
            assert found == sorted(touched(made, set(seeds)))
            assert (answer.widened, answer.ended) == ((), ())

    def test_an_identity_that_is_not_known_is_an_error(self, w: whence.Session, tmp_path: Path, front_end: str) -> None:
        flow = FRONT_ENDS[front_end](w, tmp_path, Keep(A, 2), TABLES).flow()
        site = flow.inputs[0]
        with pytest.raises(whence.WhenceError):
            flow.forward(flow.take(site, [("/nowhere", 1)]))
