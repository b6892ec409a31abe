"""The genomics workflow (figure 2): ten built-in operators, and E to H, which extract, learn and predict.

A matrix of 56 rows (55 features and whether the patient relapsed) by 100 patients, patients repeated to make it larger.
E and G keep the patients without missing values and the features that vary most; F makes a Bayesian model of them, H
predicts each patient of the test matrix with it. All four are payload operators without locality.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from whence.arrays import Mode, Operator, Workflow, ops

FEATURES, PATIENTS = 55, 100
KEPT = 30
BINS = 4


def matrix(scale: int, seed: int) -> np.ndarray:
    """Features by patients, the last row the outcome; some patients lack a value (NaN)."""
    rng = np.random.default_rng(seed)
    outcome = rng.random(PATIENTS) < 0.4
    strength = rng.normal(0, 1, FEATURES) * rng.uniform(0.2, 2.0, FEATURES)
    values = rng.normal(0, 1, (FEATURES, PATIENTS)) * rng.uniform(0.5, 2.0, (FEATURES, 1)) + np.outer(strength, outcome)
    values[rng.integers(0, FEATURES, 4), rng.integers(0, PATIENTS, 4)] = np.nan
    whole = np.vstack([values, outcome[None, :].astype(float)])
    return np.tile(whole, (1, scale)) + 0.0


class Extract(Operator):
    """E and G: (patients, features) to the patients without missing values and the features that vary most; the
    outcome is the last column. A payload is the number of the cell that moved."""

    def supported_modes(self) -> set[Mode]:
        return {Mode.FULL, Mode.PAY}

    def run(self, table: np.ndarray, cur_modes: frozenset[Mode]) -> np.ndarray:
        patients = np.flatnonzero(~np.isnan(table).any(axis=1))
        spread = np.nanvar(table[:, :-1], axis=0)
        features = np.append(np.sort(np.argsort(-spread, kind="stable")[:KEPT]), table.shape[1] - 1)
        if Mode.FULL in cur_modes or Mode.PAY in cur_modes:
            out = np.stack(np.indices((len(patients), len(features))), -1).reshape(-1, 2)
            read = np.stack([patients[out[:, 0]], features[out[:, 1]]], -1)
            if Mode.FULL in cur_modes:
                self.lwrite_many(out, read)
            if Mode.PAY in cur_modes:
                self.lwrite_many(out, payload=read[:, 0] * table.shape[1] + read[:, 1])
        return table[np.ix_(patients, features)]

    def map_p_many(self, outcells: np.ndarray, payloads: np.ndarray, i: int) -> tuple[np.ndarray, np.ndarray]:
        columns = self.input_shapes[i][1]
        numbers = payloads.astype(np.int64)
        return np.arange(len(outcells)), np.stack([numbers // columns, numbers % columns], -1)


class Model(Operator):
    """F: for each feature and each quarter of its values, how much it speaks for a relapse. A cell depends on the
    feature of all patients and on their outcomes; its payload is the feature."""

    def supported_modes(self) -> set[Mode]:
        return {Mode.FULL, Mode.PAY}

    def run(self, table: np.ndarray, cur_modes: frozenset[Mode]) -> np.ndarray:
        values, outcome = table[:, :-1], table[:, -1] > 0
        model = np.empty((values.shape[1], 2 * BINS))
        for k in range(values.shape[1]):
            edges = np.quantile(values[:, k], np.linspace(0, 1, BINS + 1)[1:-1])
            bins = np.searchsorted(edges, values[:, k])
            sick = np.bincount(bins[outcome], minlength=BINS) + 1.0
            well = np.bincount(bins[~outcome], minlength=BINS) + 1.0
            model[k, :BINS] = np.log(sick / sick.sum()) - np.log(well / well.sum())
            model[k, BINS : 2 * BINS - 1] = edges
            model[k, -1] = len(values)
        patients = np.arange(len(table))
        for k in range(len(model)) if Mode.FULL in cur_modes or Mode.PAY in cur_modes else ():
            cells = [(k, b) for b in range(2 * BINS)]
            if Mode.FULL in cur_modes:
                read = np.concatenate([[patients, np.full_like(patients, c)] for c in (k, table.shape[1] - 1)], axis=1)
                self.lwrite(cells, read.T)
            if Mode.PAY in cur_modes:
                self.lwrite(cells, payload=k)
        return model

    def map_p_many(self, outcells: np.ndarray, payloads: np.ndarray, i: int) -> tuple[np.ndarray, np.ndarray]:
        patients, columns = self.input_shapes[i]
        both = np.stack([payloads.astype(np.int64), np.full(len(payloads), columns - 1)], -1)
        cells = np.empty((len(outcells), 2, patients, 2), np.int64)
        cells[..., 0] = np.arange(patients)
        cells[..., 1] = both[:, :, None]
        return np.repeat(np.arange(len(outcells)), 2 * patients), cells.reshape(-1, 2)


class Predict(Operator):
    """H: a patient's chance of a relapse, from his features and the whole model; the payload is the patient."""

    def supported_modes(self) -> set[Mode]:
        return {Mode.FULL, Mode.PAY}

    def run(self, table: np.ndarray, model: np.ndarray, cur_modes: frozenset[Mode]) -> np.ndarray:
        score = np.zeros(len(table))
        for k in range(len(model)):
            score += model[k, np.searchsorted(model[k, BINS : 2 * BINS - 1], table[:, k])]
        if Mode.FULL in cur_modes:
            everything = np.stack(np.indices(model.shape), -1).reshape(-1, 2)
            features = np.arange(len(model))
            for patient in range(len(table)):
                self.lwrite([(patient,)], np.stack([np.full_like(features, patient), features], -1), everything)
        if Mode.PAY in cur_modes:
            patients = np.arange(len(table))
            self.lwrite_many(patients[:, None], payload=patients)
        return 1 / (1 + np.exp(-score))

    def map_p_many(self, outcells: np.ndarray, payloads: np.ndarray, i: int) -> tuple[np.ndarray, np.ndarray]:
        rows, columns = self.input_shapes[1]
        if i == 0:
            found = np.empty((len(outcells), rows, 2), np.int64)
            found[..., 0] = payloads.astype(np.int64)[:, None]
            found[..., 1] = np.arange(rows)
            return np.repeat(np.arange(len(outcells)), rows), found.reshape(-1, 2)
        everything = np.stack(np.indices((rows, columns)), -1).reshape(-1, 2)
        return np.repeat(np.arange(len(outcells)), len(everything)), np.tile(everything, (len(outcells), 1))


def workflow() -> Workflow:
    wf = Workflow()
    ready = []
    for name, extract in (("train", "E"), ("test", "G")):
        read = wf.input(name)
        turned = wf.add(ops.Transpose(), read, name=f"turned_{name}")
        mean = wf.add(ops.Reduce(np.nanmean, axis=1, keepdims=True), read, name=f"mean_{name}")
        lying = wf.add(ops.Transpose(), mean, name=f"row_{name}")
        scaled = wf.add(ops.Elementwise(np.divide), turned, lying, name=f"scaled_{name}")
        shown = wf.add(ops.Elementwise(np.arctan), scaled, name=f"bounded_{name}")
        ready.append(wf.add(Extract(), shown, name=extract))
    model = wf.add(Model(), ready[0], name="F")
    wf.add(Predict(), ready[1], model, name="H")
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
    """A prediction, and a feature of the model, to the training values; training values to the model and to the
    predictions."""
    values = [(k, p) for k in (3, 7, 11) for p in range(10, 40)]
    back = ("F", "E", "bounded_train", ("scaled_train", 0), "turned_train")
    forth = ("turned_train", ("scaled_train", 0), "bounded_train", "E", "F")
    feature = [(5, b) for b in range(2 * BINS)]
    return [
        Asked("BQ0", "backward", "H", [(17,)], "train", (("H", 1), *back)),
        Asked("BQ1", "backward", "F", feature, "train", back),
        Asked("FQ0", "forward", "train", values, "F", forth),
        Asked("FQ1", "forward", "train", values, "H", (*forth, ("H", 1))),
    ]


WORKLOAD = [
    ("backward", "H", "train"),
    ("backward", "F", "train"),
    ("forward", "train", "F"),
    ("forward", "train", "H"),
]
