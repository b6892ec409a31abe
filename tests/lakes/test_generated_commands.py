"""Tables that many commands made, drawn by chance, against an oracle that carries sets of source rows."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from pyspark.sql import functions as F

import whence
from lakes.test_captured_writes import KINDS, Shop, compact, snapshots

# More of them: WHENCE_CHAINS=20 make test-lakes ARGS="tests/lakes/test_generated_commands.py"
CHAINS = int(os.environ.get("WHENCE_CHAINS", "2"))
FIRST = int(os.environ.get("WHENCE_FIRST_CHAIN", "0"))
COMMANDS = 7
Source = tuple[str, int]


@dataclass(frozen=True)
class Row:
    v: str | None
    n: int | None
    sources: frozenset[Source]


Rows = dict[int, Row]


class Chain:
    """A table, and what the oracle says that it holds."""

    def __init__(self, shop: Shop, seed: int) -> None:
        self.shop, self.spark, self.table = shop, shop.spark, shop.table
        self.chance = random.Random(f"{shop.kind} {seed}")
        self.rows: Rows = {}
        self.versions: list[Rows] = []
        self.said: list[str] = []
        self.added: list[str] = []
        self._files = self._ids = 0

    def make(self) -> None:
        more = self.chance.choice([
            "",
            "PARTITIONED BY (n)",
            "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
            if self.shop.kind == "delta"
            else "TBLPROPERTIES ('format-version' = '2', 'write.delete.mode' = 'merge-on-read', "
            "'write.update.mode' = 'merge-on-read', 'write.merge.mode' = 'merge-on-read')",
            "TBLPROPERTIES ('delta.enableRowTracking' = 'true')"
            if self.shop.kind == "delta"
            else "TBLPROPERTIES ('format-version' = '3')",
        ])  # fmt: skip
        self.run(f"CREATE TABLE {self.table} (id bigint, v string, n int) USING {self.shop.kind} {more}")

    def run(self, text: str) -> None:
        self.said.append(text)
        with self.shop.w.capture():
            self.spark.sql(text)

    def source(self, ids: list[int]) -> tuple[str, Rows]:
        """A file with these rows, some of whose values are NULL."""
        self._files += 1
        name = f"s{self._files}"
        values = {i: (self.chance.choice(["a", "b", None]), self.chance.choice([0, 1, 2, None])) for i in ids}
        self.shop.file(name, [(i, v, n) for i, (v, n) in values.items()], "id bigint, v string, n int")
        self.said.append(f"{name}: {values}")
        return name, {i: Row(v, n, frozenset({(name, i)})) for i, (v, n) in values.items()}

    def new_ids(self) -> list[int]:
        count = self.chance.randint(1, 4)
        self._ids += count
        return list(range(self._ids - count, self._ids))

    def step(self) -> None:
        commands: list[Callable[[], None]] = [
            self.append, self.update, self.delete, self.merge, self.merge, self.merge_all, self.replace_part,
            self.compact, self.add_column, self.go_back,
        ]  # fmt: skip
        self.chance.choice(commands if self.rows else [self.append])()
        self.versions.append(dict(self.rows))

    # --- commands

    def append(self) -> None:
        name, rows = self.source(self.new_ids())
        df = self.spark.table(name)
        if self.added:
            self.run(f"INSERT INTO {self.table} SELECT *{', NULL' * len(self.added)} FROM {name}")
        elif self.chance.random() < 0.5:
            self.said.append(f"append {name}")
            with self.shop.w.capture():
                df.writeTo(self.table).append()
        else:
            self.run(f"INSERT INTO {self.table} SELECT * FROM {name}")
        self.rows |= rows

    def condition(self) -> tuple[str, Callable[[int, Row], bool | None]]:
        some = self.chance.randint(0, 2)
        return self.chance.choice([
            (f"id % 3 = {some}", lambda i, row: i % 3 == some),
            (f"n <= {some}", lambda i, row: None if row.n is None else row.n <= some),
            ("v IS NULL", lambda i, row: row.v is None),
            (f"v = 'a' OR n = {some}", lambda i, row: row.v == "a" or row.n == some),
        ])  # fmt: skip

    def update(self) -> None:
        text, holds = self.condition()
        sets, change = self.chance.choice([
            ("v = concat(v, '!')", lambda row: replace(row, v=None if row.v is None else row.v + "!")),
            ("n = n + 1", lambda row: replace(row, n=None if row.n is None else row.n + 1)),
            ("v = 'set', n = NULL", lambda row: replace(row, v="set", n=None)),
        ])  # fmt: skip
        self.run(f"UPDATE {self.table} SET {sets} WHERE {text}")
        self.rows = {i: change(row) if holds(i, row) else row for i, row in self.rows.items()}

    def delete(self) -> None:
        text, holds = self.condition()
        self.run(f"DELETE FROM {self.table} WHERE {text}")
        self.rows = {i: row for i, row in self.rows.items() if not holds(i, row)}

    def merge(self) -> None:
        known = self.chance.sample(sorted(self.rows), min(len(self.rows), 2))
        name, news = self.source([*known, *self.new_ids()])
        self.run(
            f"MERGE INTO {self.table} t USING {name} s ON t.id = s.id WHEN MATCHED AND s.n = 0 THEN DELETE "
            "WHEN MATCHED AND s.n = 1 THEN UPDATE SET v = concat(t.v, s.v) WHEN NOT MATCHED AND s.v IS NOT NULL "
            "THEN INSERT (id, v, n) VALUES (s.id, s.v, s.n + 10)"
        )
        for i, new in news.items():
            old = self.rows.get(i)
            if old is None and new.v is not None:
                self.rows[i] = replace(new, n=None if new.n is None else new.n + 10)
            elif old is not None and new.n == 0:
                del self.rows[i]
            elif old is not None and new.n == 1:
                v = None if old.v is None or new.v is None else old.v + new.v
                self.rows[i] = Row(v, old.n, old.sources | new.sources)

    def merge_all(self) -> None:
        """With rows that the source lacks; one that is left alone is so thanks to its match."""
        known = self.chance.sample(sorted(self.rows), min(len(self.rows), 2))
        name, news = self.source([*known, *self.new_ids()])
        self.run(
            f"MERGE INTO {self.table} t USING {name} s ON t.id = s.id "
            "WHEN MATCHED AND s.v IS NULL THEN UPDATE SET v = 'm' "
            "WHEN NOT MATCHED THEN INSERT (id, v, n) VALUES (s.id, s.v, s.n) "
            "WHEN NOT MATCHED BY SOURCE AND t.n = 2 THEN DELETE WHEN NOT MATCHED BY SOURCE THEN UPDATE SET v = 'alone'"
        )
        rows: Rows = {}
        for i, old in self.rows.items():
            if i in news:
                rows[i] = Row("m" if news[i].v is None else old.v, old.n, old.sources | news[i].sources)
            elif old.n != 2:
                rows[i] = replace(old, v="alone")
        self.rows = {i: row for i, row in news.items() if i not in self.rows} | rows

    def replace_part(self) -> None:
        """Of Iceberg's, whose conditions are about whole files, all."""
        if self.added:
            return
        name, rows = self.source(self.new_ids())
        if self.shop.kind == "iceberg":
            self.run(f"INSERT OVERWRITE {self.table} SELECT * FROM {name}")
            self.rows = rows
            return
        self.said.append(f"replace id % 2 = 0 by {name}")
        self._ids *= 2
        even = self.spark.table(name).withColumn("id", F.col("id") * 2)
        with self.shop.w.capture():
            even.write.format("delta").mode("overwrite").option("replaceWhere", "id % 2 = 0").saveAsTable(self.table)
        self.rows = {i: row for i, row in self.rows.items() if i % 2} | {2 * i: row for i, row in rows.items()}

    def compact(self) -> None:
        self.said.append("compact")
        compact(self.shop)

    def add_column(self) -> None:
        self.added.append(f"c{len(self.added)}")
        self.run(f"ALTER TABLE {self.table} ADD COLUMN {self.added[-1]} string")

    def go_back(self) -> None:
        """To what the table was after the first command."""
        if self.added:
            return
        if self.shop.kind == "delta":
            self.run(f"RESTORE TABLE {self.table} TO VERSION AS OF 1")
        else:
            first = f"table => '{self.table.removeprefix('ice.')}', snapshot_id => {snapshots(self.shop)[0]}"
            self.run(f"CALL ice.system.rollback_to_snapshot({first})")
        self.rows = dict(self.versions[0])

    # --- questions

    def check(self) -> None:
        told = self.spark.table(self.table).select("id", "v", "n").collect()
        assert {row.id: (row.v, row.n) for row in told} == {i: (row.v, row.n) for i, row in self.rows.items()}
        assert len(told) == len(self.rows)
        whole = self.shop.later.backward(self.spark.table(self.table))
        assert whole.notes == ()
        assert self.sources(whole) == frozenset().union(*[row.sources for row in self.rows.values()])
        assert whole.verify().ok
        for i in self.chance.sample(sorted(self.rows), min(3, len(self.rows))):
            trace = self.shop.later.backward(self.spark.table(self.table).where(f"id = {i}"))
            assert trace.exact
            assert self.sources(trace) == self.rows[i].sources, i

    def sources(self, trace: whence.Trace) -> frozenset[Source]:
        return frozenset((name, row.id) for name, df in trace.sources.items() for row in df.select("id").collect())


@pytest.fixture(params=list(KINDS))
def shop(request: pytest.FixtureRequest, w: whence.Session, tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(w, request.param, tmp_path)
    w.spark.sql(f"DROP TABLE IF EXISTS {shop.table}")
    yield shop
    shop.close()


@pytest.mark.parametrize("seed", range(FIRST, FIRST + CHAINS))
def test_chains_of_commands(shop: Shop, seed: int) -> None:
    chain = Chain(shop, seed)
    try:
        chain.make()
        for _ in range(COMMANDS):
            chain.step()
        chain.check()
    except Exception as problem:
        problem.add_note("\n".join(chain.said)) if hasattr(problem, "add_note") else print("\n".join(chain.said))
        raise
