"""The operator of section VIII-C: lineage for a tenth of the cells of a 1000 x 1000 array, with given fanin and fanout.

A region pair joins a cluster of output cells with as many input cells near them as the fanin says.
"""

from __future__ import annotations

import numpy as np

from whence.arrays import Mode, Operator, Workflow

SHAPE = (1000, 1000)
PART = 0.1


class Synthetic(Operator):
    def __init__(self, fanin: int, fanout: int, seed: int = 1) -> None:
        self.fanin, self.fanout, self.seed = fanin, fanout, seed

    def supported_modes(self) -> set[Mode]:
        return {Mode.FULL, Mode.PAY}

    def regions(self) -> tuple[np.ndarray, np.ndarray]:
        """The cells of all regions: regions x fanout x 2 and regions x fanin x 2."""
        rng = np.random.default_rng(self.seed)
        count = int(SHAPE[0] * SHAPE[1] * PART / self.fanout)
        side = int(np.ceil(np.sqrt(max(self.fanin, self.fanout)))) + 1
        corners = rng.integers(0, np.asarray(SHAPE) - side, (count, 1, 2))
        return corners + _within(self.fanout, side), corners + _within(self.fanin, side)

    def run(self, image: np.ndarray, cur_modes: frozenset[Mode]) -> np.ndarray:
        if Mode.FULL in cur_modes or Mode.PAY in cur_modes:
            out, inn = self.regions()
            for k in range(len(out)):
                if Mode.FULL in cur_modes:
                    self.lwrite(out[k], inn[k])
                if Mode.PAY in cur_modes:
                    self.lwrite(out[k], payload=inn[k].astype(np.int16).tobytes())  # 4 bytes an input cell
        return image + 1.0

    def map_p(self, outcell: tuple[int, ...], payload: bytes, i: int) -> np.ndarray:
        return np.frombuffer(payload, np.int16).reshape(-1, 2).astype(np.int64)

    def map_p_many(self, outcells: np.ndarray, payloads: np.ndarray, i: int) -> tuple[np.ndarray, np.ndarray]:
        lengths = np.fromiter((len(p) // 4 for p in payloads), np.int64, len(payloads))
        cells = np.frombuffer(b"".join(payloads), np.int16).reshape(-1, 2).astype(np.int64)
        return np.repeat(np.arange(len(payloads)), lengths), cells


def _within(count: int, side: int) -> np.ndarray:
    """The first so many cells of a square."""
    cells = np.stack(np.meshgrid(np.arange(side), np.arange(side), indexing="ij"), -1).reshape(-1, 2)
    return cells[:count]


def workflow(fanin: int, fanout: int) -> Workflow:
    wf = Workflow()
    wf.add(Synthetic(fanin, fanout), wf.input("image"), name="synthetic")
    return wf


def asked(fanin: int, fanout: int, count: int = 1000) -> tuple[np.ndarray, np.ndarray]:
    """Output cells, and input cells, that have lineage."""
    out, inn = Synthetic(fanin, fanout).regions()
    rng = np.random.default_rng(2)
    out, inn = np.unique(out.reshape(-1, 2), axis=0), np.unique(inn.reshape(-1, 2), axis=0)
    pick = [table[np.sort(rng.choice(len(table), min(count, len(table)), replace=False))] for table in (out, inn)]
    return pick[0], pick[1]
