"""A day of mobile traffic, made from a seed: one line a request, and a table that says where each cell stands."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

LINES = 40_000
USERS = 400
CITIES = ("Berlin", "Bonn", "Bremen", "Dresden", "Essen", "Halle", "Kiel", "Ulm")
CELLS_PER_CITY = 5
PHONES = ("Android/14 Chrome", "Android/15 Chrome", "Android/15 Firefox", "iPhone/17 Safari", "iPhone/18 Safari")
KNOWN_TETHERING = ("Tethering/2.1", "WiFi-Hotspot/3.2")
NEW_SPELLING = "WiFi-HotSpot/4.0"

KNOWN_SHARE, NEW_USERS = 0.05, 3
PHONE_BYTES, TETHERING_BYTES = 200_000, 6_000_000  # the median request


def write(folder: Path, seed: int = 2012) -> tuple[Path, Path]:
    """Write logs and cells as Parquet and return their paths."""
    random = np.random.default_rng(seed)
    agents = random.choice(PHONES, USERS).astype(object)
    homes = random.integers(0, len(CITIES), USERS)
    tethering = random.permutation(USERS)
    known = tethering[: int(KNOWN_SHARE * USERS)]
    new = tethering[len(known) : len(known) + NEW_USERS]
    agents[known] = random.choice(KNOWN_TETHERING, len(known))
    agents[new] = NEW_SPELLING

    uid = random.integers(0, USERS, LINES)
    cell = homes[uid] * CELLS_PER_CITY + random.integers(0, CELLS_PER_CITY, LINES)
    typical = np.where(np.isin(uid, tethering[: len(known) + NEW_USERS]), TETHERING_BYTES, PHONE_BYTES)
    size = random.lognormal(np.log(typical), 0.6).astype(np.int64)
    second = np.sort(random.integers(0, 86_400, LINES))
    clock = [f"{s // 3600:02}:{s // 60 % 60:02}:{s % 60:02}" for s in second.tolist()]
    logs = pa.table(
        {"time": clock, "uid": uid + 1, "cell": cell + 1, "agent": pa.array(agents[uid].tolist()), "bytes": size}
    )
    numbers = np.arange(len(CITIES) * CELLS_PER_CITY)
    cells = pa.table({"cell": numbers + 1, "city": [CITIES[n // CELLS_PER_CITY] for n in numbers]})
    for name, table in (("logs", logs), ("cells", cells)):
        (folder / name).mkdir(exist_ok=True)
        pq.write_table(table, folder / name / "day.parquet")
    return folder / "logs", folder / "cells"
