"""Section 2 of the paper, word for word: universe, hypothetical, definitive and minimal definitive root causes.

They look at every configuration of the universe, so they are for small spaces and for tests; the search does not use
them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence

from whence.debug.diagnose.causes import Condition
from whence.debug.diagnose.space import Config, Space

Conjunction = Sequence[Condition]


def universe(configs: Iterable[Config]) -> Space:
    """Definition 1: the values that each parameter takes in the given runs."""
    values: dict[str, list[object]] = {}
    for config in configs:
        for name, value in config.items():
            known = values.setdefault(name, [])
            if value not in known:
                known.append(value)
    return Space.of(values)


def _holds(conjunction: Conjunction, config: Config) -> bool:
    return all(c.holds(config) for c in conjunction)


def is_hypothetical(conjunction: Conjunction, runs: Iterable[tuple[Config, bool]]) -> bool:
    """Definition 3: no succeeding run satisfies it, and some failing run does."""
    satisfied = [succeeded for config, succeeded in runs if _holds(conjunction, config)]
    return bool(satisfied) and not any(satisfied)


def configurations(space: Space) -> Iterator[Config]:
    for values in itertools.product(*(p.values for p in space.parameters)):
        yield dict(zip(space.names, values, strict=True))


def is_definitive(conjunction: Conjunction, space: Space, succeeds: Callable[[Config], bool]) -> bool:
    """Definition 4: it can be satisfied, and whatever satisfies it fails."""
    outcomes = [succeeds(config) for config in configurations(space) if _holds(conjunction, config)]
    return bool(outcomes) and not any(outcomes)


def is_minimal(conjunction: Conjunction, space: Space, succeeds: Callable[[Config], bool]) -> bool:
    """Definition 5: definitive, and no proper subset of it is. One condition less is enough to look at: what
    contains a definitive cause is itself definitive."""
    return is_definitive(conjunction, space, succeeds) and not any(
        is_definitive([*conjunction[:i], *conjunction[i + 1 :]], space, succeeds) for i in range(len(conjunction))
    )
