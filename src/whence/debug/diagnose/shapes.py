"""The sets of values that one condition (or a pair of them) can pick out of a parameter, with how likely each is.

A term of a hypothesis has one shape per parameter; the shape "every value" means that the parameter does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from whence.debug.diagnose.space import Mask, Parameter

Floats = npt.NDArray[np.float32]

# How the weight of a condition spreads over its kinds. Nothing here is tuned to one benchmark: thresholds are the
# commonest condition on numbers, equality on names; exotic shapes keep a little so that they can be found at all.
_ORDINAL = {"threshold": 0.58, "equal": 0.2, "unequal": 0.14, "between": 0.08}
_CATEGORICAL = {"equal": 0.55, "unequal": 0.4, "unequal_two": 0.05}
_MOST_PAIRS = 64  # values; above it two-sided shapes would cost more thinking time than they are worth


@dataclass(frozen=True)
class Shapes:
    """`members[s, v]`: does shape s hold value v; shape 0 is every value. `log_prior[s]`: given that it is relevant."""

    members: Mask
    weights: Floats  # members as numbers, transposed, for matrix products
    log_prior: Floats
    single: npt.NDArray[np.int64]  # shape number of {v}
    plain: int  # shapes before this number are a single comparison; the two-sided ones come after


def shapes_of(parameter: Parameter, relevant: float) -> Shapes:
    size = len(parameter.values)
    prior: dict[bytes, float] = {}
    plain = 1

    def give(mask: Mask, weight: float) -> None:
        if 0 < mask.sum() < size:
            prior[mask.tobytes()] = prior.get(mask.tobytes(), 0.0) + weight

    codes = np.arange(size)
    if size > 1:
        if parameter.ordinal:
            for v in range(size):
                give(codes == v, _ORDINAL["equal"] / size)
                give(codes != v, _ORDINAL["unequal"] / size)
            for t in range(1, size):
                give(codes < t, _ORDINAL["threshold"] / (2 * size - 2))
                give(codes >= t, _ORDINAL["threshold"] / (2 * size - 2))
            plain += len(prior)
            if 3 < size <= _MOST_PAIRS:
                pairs = [(a, b) for a in range(1, size - 2) for b in range(a + 1, size - 1)]
                for a, b in pairs:
                    give((codes >= a) & (codes <= b), _ORDINAL["between"] / len(pairs))
        else:
            for v in range(size):
                give(codes == v, _CATEGORICAL["equal"] / size)
                give(codes != v, _CATEGORICAL["unequal"] / size)
            plain += len(prior)
            if 3 < size <= _MOST_PAIRS:
                pairs = [(a, b) for a in range(size) for b in range(a + 1, size)]
                for a, b in pairs:
                    give((codes != a) & (codes != b), _CATEGORICAL["unequal_two"] / len(pairs))
    total = sum(prior.values())
    rows = [np.ones(size, dtype=bool)] + [np.frombuffer(m, dtype=bool) for m in prior]
    members = np.array(rows)
    log_prior = np.log([1 - relevant] + [relevant * w / total for w in prior.values()]).astype(np.float32)
    single = np.zeros(size, dtype=np.int64)
    for s, row in enumerate(rows):
        if row.sum() == 1:
            single[int(np.flatnonzero(row)[0])] = s
    return Shapes(
        members=members,
        weights=np.ascontiguousarray(members.T.astype(np.float32)),
        log_prior=log_prior,
        single=single,
        plain=plain,
    )


def stacked(shapes: list[Shapes]) -> tuple[Mask, npt.NDArray[np.int64]]:
    """All shapes of all parameters in one table, padded to the widest, and where each parameter's begin."""
    offset = np.cumsum([0] + [len(s.members) for s in shapes])
    table = np.zeros((offset[-1], max(s.members.shape[1] for s in shapes)), dtype=bool)
    for s, at in zip(shapes, offset[:-1], strict=True):
        table[at : at + len(s.members), : s.members.shape[1]] = s.members
    return table, offset[:-1]
