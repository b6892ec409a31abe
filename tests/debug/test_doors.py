"""What executors and culprits leave in the store is unpickled only if nobody else has touched it."""

from __future__ import annotations

import base64
import json
import os
import pickle
import stat
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import udf

import whence
from whence.debug.guard.culprit import Culprit, write_script
from whence.debug.guard.findings_worker import Findings
from whence.store import Unsigned
from whence.store.sealed import sealed, unsealed


class Bomb:
    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.path,)


@pytest.fixture
def ran(tmp_path: Path) -> Path:
    return tmp_path / "ran"


def test_findings_of_others_are_not_unpickled(ran: Path) -> None:
    mine, others = Findings(("finding",)), Findings(("finding",))
    assert pickle.loads(pickle.dumps(mine)).loads(mine.dumps({"a": 1}, "here"), "here") == {"a": 1}
    bomb = pickle.dumps(Bomb(ran))
    for planted in (bomb, others.dumps(Bomb(ran), "here"), mine.dumps(Bomb(ran), "there"), b""):
        with pytest.raises(Unsigned):
            mine.loads(planted, "here")
    assert not ran.exists()
    assert mine.key not in repr(mine)


def _quarantine(w: whence.Session, frame: DataFrame, bomb: str) -> Any:
    """A block in which somebody writes to the store between the job and its end."""
    with w.guard(on_error="quarantine") as guard:
        assert len(frame.collect()) == 4
        (log,) = Path(w.actors.root, "logs").rglob("*.parquet")
        table = pq.read_table(log)
        records, notes = table["input"].to_pylist(), [json.loads(note) for note in table["output"].to_pylist()]
        # another pickle; another record's pickle; a batch that this record never had
        planted = [bomb, records[2], records[2]], [notes[0], notes[1], {**notes[2], "given": bomb}]
        pq.write_table(pa.table({"input": planted[0], "output": [json.dumps(note) for note in planted[1]]}), log)
        _vouch_for(log)
    return guard


def _vouch_for(part: Path) -> None:
    """What the attacker can do too: the length and the checksum that the log's manifest tells are those of the file."""
    for manifest in part.parent.glob("*.json"):
        told = unsealed(manifest.read_bytes())
        for one in told["parts"]:
            if one["file"] == part.name:
                one.update(bytes=part.stat().st_size, crc32=zlib.crc32(part.read_bytes()))
        manifest.write_bytes(sealed(told))


def test_quarantined_records_that_were_changed_are_left_out(w: whence.Session, spark: SparkSession, ran: Path) -> None:
    parse = udf(lambda text: int(text), "int")
    frame = spark.createDataFrame([("1",), ("x",), ("y",), ("z",)], "a string").coalesce(1).select(parse("a"))
    bomb = base64.b64encode(pickle.dumps(Bomb(ran))).decode()
    with pytest.warns(UserWarning, match="3 records that were put aside are left out: somebody else has changed"):
        guard = _quarantine(w, frame, bomb)
    assert guard.records == ()
    assert not ran.exists()


def test_a_culprit_runs_only_with_the_record_it_was_written_with(tmp_path: Path, ran: Path) -> None:
    evil = f'"""\nimport os; os.mkdir({str(ran)!r})\n"""\\'
    before = os.umask(0)
    try:
        script = write_script(
            tmp_path / "store" / "culprits" / "one", Culprit(evil, "r", evil, "", 0, 0), len, "a\x1bü", print
        )
    finally:
        os.umask(before)
    assert {stat.S_IMODE(p.stat().st_mode) for p in script.parent.iterdir()} == {0o600}
    assert stat.S_IMODE(script.parent.stat().st_mode) == 0o700
    told = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr
    assert "record:   a\\x1bü" in told.stdout
    (script.parent / "culprit.pickle").write_bytes(pickle.dumps(Bomb(ran)))
    told = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert told.returncode == 1
    assert "culprit.pickle is not what was written with this script" in told.stderr
    assert not ran.exists()
