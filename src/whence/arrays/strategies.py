"""Which strategies each operator of a workflow keeps: what the user said, made one list for each node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from whence.arrays.encodings import BLACKBOX, MAP, Strategy
from whence.arrays.errors import ArrayError
from whence.arrays.operator import Mode, label, modes_of
from whence.arrays.workflow import Node, Workflow

_FREE = (("Comp", Mode.COMP), ("PayOne", Mode.PAY), ("FullOne", Mode.FULL))
"""What is kept when nobody says anything: the smallest that the operator knows, so that asking needs no rerun."""


def chosen(workflow: Workflow, said: Any) -> dict[Node, tuple[Strategy, ...]]:
    """`said`: None, a text for all, a mapping from nodes to texts, or a plan."""
    made = {node: _free(node) for node in workflow.nodes if node.operator is not None}
    if said is None:
        return made
    if isinstance(said, str):
        strategy = Strategy.parse(said)
        return {node: _for_all(node, strategy) for node in made}
    if isinstance(said, Mapping):
        for asked, texts in said.items():
            node = workflow.find(asked)
            if node.operator is None:
                raise ArrayError(f"{node.name} is an input: it has no operator that a strategy could be for.")
            made[node] = _exactly(node, texts)
        return made
    if hasattr(said, "costs") and hasattr(said, "__getitem__"):  # a plan
        return {node: _exactly(node, _planned(said, node)) for node in made}
    raise TypeError(f"{said!r} does not say strategies: give a text, a mapping from nodes to texts, or a plan.")


def modes_for(node: Node, strategies: tuple[Strategy, ...]) -> frozenset[Mode]:
    """What `run` is asked to write."""
    assert node.operator is not None
    return frozenset(strategy.needs for strategy in strategies if strategy != BLACKBOX) or frozenset({Mode.BLACKBOX})


def _free(node: Node) -> tuple[Strategy, ...]:
    assert node.operator is not None
    modes = modes_of(node.operator)
    if Mode.MAP in modes:
        return (MAP,)
    return next(((Strategy(text),) for text, mode in _FREE if mode in modes), (BLACKBOX,))


def _for_all(node: Node, strategy: Strategy) -> tuple[Strategy, ...]:
    assert node.operator is not None
    modes = modes_of(node.operator)
    if strategy == BLACKBOX:
        return (BLACKBOX,)
    if Mode.MAP in modes:
        return (MAP,)
    return (strategy,) if strategy.needs in modes else (BLACKBOX,)


def _exactly(node: Node, texts: Any) -> tuple[Strategy, ...]:
    assert node.operator is not None
    if isinstance(texts, str):
        texts = [texts]
    try:
        strategies = tuple(dict.fromkeys(Strategy.parse(text) for text in texts))
    except TypeError as error:
        raise TypeError(f"The strategies {texts!r} for {node.name} are no text and no list of texts: {error}") from None
    modes = modes_of(node.operator)
    for strategy in strategies:
        if strategy.needs not in modes:
            told = ", ".join(sorted(mode.value for mode in modes))
            raise ArrayError(
                f"{node.name} cannot keep {strategy}: that needs the mode {strategy.needs.value}, and "
                f"{label(node.operator)} supports {told}."
            )
    needed = {strategy.needs for strategy in strategies}
    if {Mode.PAY, Mode.COMP} <= needed:
        raise ArrayError(
            f"{node.name} cannot keep {' and '.join(map(str, strategies))} of one run: payloads mean the whole lineage "
            "to one and exceptions to the other. Choose one of them."
        )
    return strategies or (BLACKBOX,)


def _planned(plan: Any, node: Node) -> Any:
    try:
        return plan[node]
    except LookupError:
        return [str(strategy) for strategy in _free(node)]
