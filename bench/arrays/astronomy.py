"""The astronomy workflow (figure 1): 22 built-in operators, and A to D: cosmic rays found, taken out, stars found.

A pixel that a cosmic ray hit depends on the 49 pixels around it, any other on itself; a pixel of a star on the box of
its star. Two pictures of the same sky are read, or made: a level with noise, stars on both, rays on one of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import ndimage

from whence.arrays import Mode, Operator, Workflow, ops

SHAPE = (512, 2000)
GAUSS = np.outer([1, 4, 6, 4, 1], [1, 4, 6, 4, 1]) / 256.0
LAPLACE = np.array([[0, -1, 0], [-1, 4, -1], [0, -1, 0]], float)


def pictures(folder: str | None) -> tuple[np.ndarray, np.ndarray, str]:
    """The first two pictures in a folder of FITS files, cut to the paper's size; made ones where none is given."""
    if folder is None:
        return (*made(), "generated")
    from astropy.io import fits

    found = sorted(Path(folder).glob("*.fits"))[:2]
    if len(found) < 2:
        raise SystemExit(f"{folder} holds {len(found)} FITS files; two pictures of the same sky are needed.")
    read = []
    for path in found:
        with fits.open(path) as opened:
            image = next(hdu.data for hdu in opened if hdu.data is not None and hdu.data.ndim == 2)
        image = image if image.shape[0] < image.shape[1] else image.T
        read.append(np.ascontiguousarray(image[: SHAPE[0], : SHAPE[1]], dtype=np.float64))
    return read[0], read[1], "given"


def made(seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    sky = np.full(SHAPE, 1600.0)
    for _ in range(150):
        r, c, light = rng.integers(8, SHAPE[0] - 8), rng.integers(8, SHAPE[1] - 8), rng.uniform(2000, 40000)
        spot = np.exp(-(np.add.outer(np.arange(-7, 8) ** 2, np.arange(-7, 8) ** 2)) / rng.uniform(3, 8))
        sky[r - 7 : r + 8, c - 7 : c + 8] += light * spot
    images = []
    for _ in range(2):
        image = rng.poisson(sky).astype(float)
        rays = rng.integers(0, SHAPE[0], 400), rng.integers(0, SHAPE[1], 400)
        image[rays] += rng.uniform(3000, 30000, 400)
        images.append(image)
    return images[0], images[1]


def around(cells: np.ndarray, radii: np.ndarray | int, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """(row, cell): the square of that radius around each cell, inside the array."""
    radii = np.broadcast_to(np.asarray(radii, dtype=np.int64), (len(cells),))
    rows, found = [], []
    for radius in np.unique(radii):
        mine = np.flatnonzero(radii == radius)
        side = np.arange(-radius, radius + 1)
        offsets = np.stack(np.meshgrid(side, side, indexing="ij"), -1).reshape(-1, 2)
        near = (cells[mine][:, None, :] + offsets[None]).reshape(-1, 2)
        row = np.repeat(mine, len(offsets))
        inside = ((near >= 0) & (near < np.asarray(shape))).all(axis=1)
        rows.append(row[inside])
        found.append(near[inside])
    if not rows:
        return np.empty(0, np.int64), np.empty((0, 2), np.int64)
    return np.concatenate(rows), np.concatenate(found)


class OneToOne(Operator):
    """A cell depends on the one at its place, unless a payload (a radius) says otherwise: a composite operator."""

    radius = 3
    inputs_around = 1

    def supported_modes(self) -> set[Mode]:
        return {Mode.FULL, Mode.PAY, Mode.COMP}

    def map_b_many(self, outcells: np.ndarray, i: int) -> tuple[np.ndarray, np.ndarray]:
        return np.arange(len(outcells)), outcells

    def map_f_many(self, incells: np.ndarray, i: int) -> tuple[np.ndarray, np.ndarray]:
        return np.arange(len(incells)), incells

    def map_p_many(self, outcells: np.ndarray, payloads: np.ndarray, i: int) -> tuple[np.ndarray, np.ndarray]:
        return around(outcells, payloads.astype(np.int64), self.input_shapes[i])

    def tell(self, special: np.ndarray, cur_modes: frozenset[Mode], inputs: int) -> None:
        """`special`: the cells that depend on those around them."""
        cells = np.argwhere(special)
        if Mode.FULL in cur_modes:
            rest = np.argwhere(~special)
            rows, near = around(cells, self.radius, special.shape)
            for i in range(inputs):
                self.lwrite_many(np.concatenate([rest, cells[rows]]), np.concatenate([rest, near]), i)
        if Mode.PAY in cur_modes:
            everywhere = np.stack(np.indices(special.shape), -1).reshape(-1, 2)
            self.lwrite_many(everywhere, payload=np.where(special.ravel(), self.radius, 0))
        if Mode.COMP in cur_modes:
            self.lwrite_many(cells, payload=np.full(len(cells), self.radius))


class CosmicRays(OneToOne):
    """A and B: pixels that stand out against the median of the 49 around them."""

    def __init__(self, sigmas: float = 12.0) -> None:
        self.sigmas = sigmas

    def run(self, image: np.ndarray, sharp: np.ndarray, cur_modes: frozenset[Mode]) -> np.ndarray:
        middle = ndimage.median_filter(image, size=7)
        noise = 1.4826 * np.median(np.abs(image - middle))
        rays = (image - middle > self.sigmas * noise) & (sharp > 0.35)
        self.tell(rays, cur_modes, 2)
        return rays.astype(np.uint8)


class WithoutRays(OneToOne):
    """C: where a ray was, the mean of the pixels around that no ray hit."""

    radius = 2

    def run(self, image: np.ndarray, rays: np.ndarray, cur_modes: frozenset[Mode]) -> np.ndarray:
        good = (rays == 0).astype(float)
        window = np.ones((5, 5))
        near = ndimage.convolve(image * good, window, mode="constant")
        count = ndimage.convolve(good, window, mode="constant")
        hit = rays > 0
        self.tell(hit, cur_modes, 2)
        return np.where(hit, near / np.maximum(count, 1), image)


class Stars(Operator):
    """D: a payload operator. A pixel of a star depends on the pixels of its star's box; others belong to none."""

    def __init__(self, sigmas: float = 8.0) -> None:
        self.sigmas = sigmas

    def supported_modes(self) -> set[Mode]:
        return {Mode.FULL, Mode.PAY}

    def run(self, image: np.ndarray, cur_modes: frozenset[Mode]) -> np.ndarray:
        noise = 1.4826 * np.median(np.abs(image - np.median(image)))
        labels, _ = ndimage.label(image > np.median(image) + self.sigmas * noise, structure=np.ones((3, 3)))
        if Mode.FULL in cur_modes or Mode.PAY in cur_modes:
            for number, box in enumerate(ndimage.find_objects(labels), start=1):
                low, high = [s.start for s in box], [s.stop for s in box]
                cells = np.argwhere(labels[box] == number) + low
                if Mode.FULL in cur_modes:
                    self.lwrite(cells, _cells_of_box(low, high))
                if Mode.PAY in cur_modes:
                    self.lwrite(cells, payload=(*low, *high))
        return labels

    def map_p(self, outcell: tuple[int, ...], payload: Any, i: int) -> np.ndarray:
        return _cells_of_box(payload[:2], payload[2:])

    def map_p_many(self, outcells: np.ndarray, payloads: np.ndarray, i: int) -> tuple[np.ndarray, np.ndarray]:
        rows, found = [], []
        boxes: dict[Any, list[int]] = {}
        for row, box in enumerate(payloads.tolist()):
            boxes.setdefault(box, []).append(row)
        for box, mine in boxes.items():
            cells = _cells_of_box(box[:2], box[2:])
            rows.append(np.repeat(mine, len(cells)))
            found.append(np.tile(cells, (len(mine), 1)))
        if not rows:
            return np.empty(0, np.int64), np.empty((0, 2), np.int64)
        return np.concatenate(rows), np.concatenate(found)


def _cells_of_box(low: Any, high: Any) -> np.ndarray:
    axes = [np.arange(a, b) for a, b in zip(low, high, strict=True)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 2)


def gain(image: np.ndarray) -> np.ndarray:
    return image * 0.98


def background(image: np.ndarray) -> np.ndarray:
    return np.maximum(image, 1.0)


def relative(edges: np.ndarray, smooth: np.ndarray) -> np.ndarray:
    return edges / np.maximum(np.abs(smooth), 1.0)


def logarithm(image: np.ndarray) -> np.ndarray:
    return np.log1p(np.maximum(image, 0.0))


def either(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return ((a > 0) | (b > 0)).astype(np.uint8)


def workflow(entire: bool = True) -> Workflow:
    """`entire`: operators whose whole output depends on their whole inputs, and the other way round, say so (VI-C)."""
    wf = Workflow()

    def add(op: Operator, *inputs: Any, name: str) -> Any:
        op.entire_array = entire and not isinstance(op, Stars)
        return wf.add(op, *inputs, name=name)

    flats, masks = [], []
    for k in (1, 2):
        image = wf.input(f"image_{k}")
        level = add(ops.Reduce(np.mean), image, name=f"mean_{k}")
        centred = add(ops.Elementwise(np.subtract), image, level, name=f"centred_{k}")
        flat = add(ops.Elementwise(gain), centred, name=f"flat_{k}")
        smooth = add(ops.Convolve(GAUSS, mode="nearest"), flat, name=f"smooth_{k}")
        edges = add(ops.Convolve(LAPLACE, mode="nearest"), flat, name=f"edges_{k}")
        floor = add(ops.Elementwise(background), smooth, name=f"floor_{k}")
        sharp = add(ops.Elementwise(relative), edges, floor, name=f"sharp_{k}")
        masks.append(add(CosmicRays(), flat, sharp, name="AB"[k - 1]))
        flats.append(flat)
    merged = add(ops.Elementwise(np.minimum), *flats, name="merged")
    rays = add(ops.Elementwise(either), *masks, name="rays")
    clean = add(WithoutRays(), merged, rays, name="C")
    flipped = add(ops.Flip(0), clean, name="flipped")
    turned = add(ops.Transpose(), flipped, name="turned")
    blurred = add(ops.Convolve(GAUSS, mode="nearest"), turned, name="blurred")
    again = add(ops.Transpose(), blurred, name="turned_back")
    upright = add(ops.Flip(0), again, name="upright")
    signal = add(ops.Elementwise(logarithm), upright, name="signal")
    add(Stars(), signal, name="D")
    return wf


@dataclass(frozen=True)
class Asked:
    name: str
    direction: str
    start: str
    cells: Any
    to: str
    path: tuple[Any, ...]


def questions(run: Any) -> list[Asked]:
    """Five backward and one forward: a star to each picture, regions to find a faulty operator."""
    stars = np.asarray(run["D"])
    rays = np.asarray(run["A"])
    sizes = np.bincount(stars.ravel())
    star = int(np.argsort(sizes[1:], kind="stable")[len(sizes) // 2]) + 1  # one of middling size
    of_star = np.argwhere(stars == star)
    ray = np.argwhere(rays > 0)[:20]
    block = np.argwhere(np.ones((20, 20), bool)) + 200
    to_clean = ("D", "signal", "upright", "turned_back", "blurred", "turned", "flipped")
    return [
        Asked(
            "BQ0", "backward", "D", of_star, "image_1", (*to_clean, ("C", 0), ("merged", 0), "flat_1", ("centred_1", 0))
        ),
        Asked(
            "BQ1", "backward", "D", of_star, "image_2", (*to_clean, ("C", 0), ("merged", 1), "flat_2", ("centred_2", 0))
        ),
        Asked("BQ2", "backward", "C", block, "image_1", (("C", 0), ("merged", 0), "flat_1", ("centred_1", 0))),
        Asked("BQ3", "backward", "A", ray, "image_1", (("A", 0), "flat_1", ("centred_1", 0))),
        Asked(
            "BQ4",
            "backward",
            "rays",
            block,
            "image_1",
            (("rays", 0), ("A", 1), ("sharp_1", 0), "edges_1", "flat_1", ("centred_1", 0)),
        ),
        Asked(
            "FQ0",
            "forward",
            "image_1",
            block,
            "D",
            ("mean_1", ("centred_1", 1), "flat_1", ("merged", 0), ("C", 0), *reversed(to_clean[1:]), "D"),
        ),
    ]


WORKLOAD = [
    ("backward", "D", "image_1"),
    ("backward", "D", "image_2"),
    ("backward", "C", "image_1"),
    ("backward", "A", "image_1"),
    ("backward", "rays", "image_1"),
    ("forward", "image_1", "D"),
]
