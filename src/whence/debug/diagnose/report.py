"""The report of a diagnosis: for the terminal as text, for the browser as one HTML page without outside files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from whence.debug.diagnose.causes import Cause, Condition, shown
from whence.debug.diagnose.runs import Run
from whence.debug.diagnose.space import Parameter, Space
from whence.debug.diagnose.trees import Node, build
from whence.model.text import visible

if TYPE_CHECKING:
    from whence.debug.diagnose.diagnosis import Diagnosis


@dataclass(frozen=True)
class Report:
    """`str(report)` is the text, `report.html` the page, `report.save("why.html")` writes it."""

    space: Space
    causes: tuple[Cause, ...]
    runs: tuple[Run, ...]
    executions: int
    cancelled: int
    observation_only: bool
    progress: tuple[tuple[int, float, int], ...]
    kinds: tuple[str, ...]
    tree: Node
    flaky: bool

    @classmethod
    def of(cls, d: Diagnosis) -> Report:
        coded = [(d.space.encode(run.config), run.succeeded) for run in d.runs]
        return cls(
            d.space,
            d.causes,
            d.runs,
            d.executions,
            d.cancelled,
            d.observation_only,
            d.progress,
            d.kinds,
            build(coded, d.space),
            bool(d.noise),
        )

    @property
    def failed(self) -> int:
        return sum(not run.succeeded for run in self.runs)

    def __str__(self) -> str:
        lines = [self.headline(), ""]
        for number, cause in enumerate(self.causes, 1):
            lines.append(f"{number}. It fails when {in_words(cause, self.space)}.")
            lines += [f"   {sentence}" for sentence in self.sentences(cause)]
            lines.append("")
        lines += ["Decision tree of the runs:", *tree_lines(self.tree, self.space)]
        return "\n".join(map(visible, lines))

    def headline(self) -> str:
        made = f"{len(self.runs)} runs ({self.executions} of them made by diagnose"
        made += f", {self.cancelled} more cancelled)" if self.cancelled else ")"
        if not self.failed:
            return f"No run failed in {made}: there is nothing to explain."
        if self.failed == len(self.runs):
            return f"Every run failed in {made}: no setting can be told from another."
        if not self.causes:
            return f"{self.failed} of {made} failed; no cause is certain enough to be named yet. Give a larger budget."
        what = f"{len(self.causes)} cause{'s' if len(self.causes) > 1 else ''} of {self.failed} failures in {made}."
        if self.observation_only:
            what += " Observation only: these conditions agree with the history, but no run was made to test them."
        return what

    def sentences(self, cause: Cause) -> list[str]:
        """The evidence, in words."""
        seen = cause.evidence
        said = []
        if cause.kind is not None:
            said.append(f"The error is: {cause.kind}")
        said.append(
            f"{cause.status.capitalize()}, confidence {cause.confidence:.0%}: {seen.failed} "
            f"run{'s' if seen.failed != 1 else ''} that satisf{'y' if seen.failed != 1 else 'ies'} it failed, "
            f"{seen.succeeded} did not; {seen.values_tried:.0%} of the other parameters' values were tried with it."
        )
        for condition, run in seen.near_misses:
            if run is None:
                said.append(f"No run has shown yet that {condition_in_words(condition, self.space)} is needed.")
            else:
                shown = _short(self.runs[run].config)
                said.append(f"Without {condition_in_words(condition, self.space)} it succeeded: run {run} ({shown}).")
        return said

    @property
    def html(self) -> str:
        from whence.debug.diagnose.page import page

        return page(self)

    def _repr_html_(self) -> str:
        return self.html

    def save(self, path: str | Path) -> Path:
        target = Path(path)
        target.write_text(self.html, encoding="utf-8")
        return target


_WORDS = {"==": "is", "!=": "is not", "<=": "is at most", ">=": "is at least", "<": "is below", ">": "is above"}


def _parameter(space: Space, name: str) -> Parameter:
    return next(p for p in space.parameters if p.name == name)


def condition_in_words(condition: Condition, space: Space) -> str:
    value = condition.value if isinstance(condition.value, str) else shown(condition.value)
    return f"{condition.parameter} {_WORDS[condition.op]} {value}"


def in_words(cause: Cause, space: Space) -> str:
    return " and ".join(condition_in_words(c, space) for c in cause.conditions) or "anything is run at all"


def _short(config: dict[str, object], most: int = 6) -> str:
    shown = [f"{name}={value}" for name, value in config.items()]
    return ", ".join(shown[:most]) + (", ..." if len(shown) > most else "")


def split_in_words(node: Node, space: Space) -> str:
    parameter = space.parameters[node.parameter]
    if len(node.inside) > 1 or (parameter.ordinal and node.inside == {0}):
        return f"{parameter.name} <= {shown(parameter.values[max(node.inside)])}"
    return f"{parameter.name} == {shown(parameter.values[min(node.inside)])}"


def tree_lines(node: Node, space: Space, depth: int = 0, most: int = 40) -> list[str]:
    pad = "  " * (depth + 1)
    if node.yes is None or node.no is None:
        return [f"{pad}{node.outcome} ({node.failed} failed, {node.succeeded} succeeded)"]
    words = split_in_words(node, space)
    lines = [f"{pad}{words}:", *tree_lines(node.yes, space, depth + 1), f"{pad}else:"]
    lines += tree_lines(node.no, space, depth + 1)
    return lines if len(lines) <= most else [*lines[:most], f"{pad}..."]
