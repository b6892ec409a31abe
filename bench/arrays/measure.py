"""What the array benchmarks share: running a workflow under a strategy, asking it, and a plain numpy rerun beside."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np

from whence.arrays import Mode

_OF_THE_PROCESSOR = False
_SHORT = 0.05  # seconds


def of_the_processor() -> None:
    """From now on, times are those that this process had the processor: for a machine that others use, too. So are
    those that runs note of themselves."""
    global _OF_THE_PROCESSOR
    _OF_THE_PROCESSOR = True
    time.perf_counter = time.process_time
    for name, module in list(sys.modules.items()):
        if name.startswith("whence.arrays") and hasattr(module, "perf_counter"):
            module.perf_counter = time.process_time  # type: ignore[attr-defined]


def clock() -> float:
    return time.process_time() if _OF_THE_PROCESSOR else time.perf_counter()


def which_clock() -> str:
    return "times of the processor, since others used the machine" if _OF_THE_PROCESSOR else "times by the clock"


@dataclass
class Measured:
    """One way of keeping lineage: seconds of each execution, bytes, and seconds of each question."""

    seconds: list[float] = field(default_factory=list)
    disk: int = 0
    queries: dict[str, float] = field(default_factory=dict)
    slowest: dict[str, float] = field(default_factory=dict)
    answers: dict[str, Any] = field(default_factory=dict)

    @property
    def runtime(self) -> float:
        return median(self.seconds)


def executed(w: Any, wf: Any, inputs: Mapping[str, Any], strategies: Any, into: Measured) -> Any:
    start = clock()
    run = w.execute(wf, inputs, strategies=strategies)
    into.seconds.append(clock() - start)
    into.disk = sum(run.stats[node].bytes for node in run.stats)
    return run


def ask(run: Any, question: Any, optimise: bool = True) -> Any:
    return getattr(run, question.direction)(
        question.start, question.cells, to=question.to, path=list(question.path), optimise=optimise
    )


def asked(run: Any, questions: Sequence[Any], into: Measured, optimise: bool = True, most: int = 5) -> None:
    """The median of some, after one that opens files; once where it takes seconds."""
    for question in questions:
        answers = [ask(run, question, optimise)]
        took = times(lambda question=question, answers=answers: answers.append(ask(run, question, optimise)), most)
        assert all(same(answer, answers[0]) for answer in answers), f"{question.name} was answered in two ways"
        into.answers[question.name] = answers[0]
        into.queries[question.name], into.slowest[question.name] = median(took), max(took)


def repeated(work: Callable[[], object], most: int = 5) -> float:
    return median(times(work, most))


def times(work: Callable[[], object], most: int = 5) -> list[float]:
    """As many as `most`, fewer of what takes seconds, and of what takes microseconds as many as _SHORT holds: the
    processor's caches make the first of these two to three times as long as the others."""
    took: list[float] = []
    while (len(took) < most and sum(took) < 2.0) or sum(took) < _SHORT:
        start = clock()
        work()
        took.append(clock() - start)
    return took


def plainly(run: Any, names: Sequence[str] | None = None) -> float:
    """Running operators of a workflow again as plain numpy code, nothing told and nothing kept; all, or these."""
    nodes = [node for node in run.workflow.nodes if node.operator is not None and (names is None or node.name in names)]
    inputs = {node: [np.asarray(run[below]) for below in node.inputs] for node in nodes}
    plain = frozenset({Mode.BLACKBOX})
    start = clock()
    for node in nodes:
        node.operator.run(*inputs[node], cur_modes=plain)
    return clock() - start


def on_path(question: Any) -> list[str]:
    return [part if isinstance(part, str) else part[0] for part in question.path]


def same(one: Any, other: Any) -> bool:
    return np.array_equal(np.asarray(one), np.asarray(other))


def ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g}"


def mb(count: float) -> str:
    return f"{count / 1e6:.3g}"


def geometric(values: Sequence[float]) -> float:
    return float(np.exp(np.mean(np.log(values))))
