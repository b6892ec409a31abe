"""A process that only opens the store that others left: python later.py <data> <store> <array run> <path>...

Prints one JSON line: of each path, the witnesses at the first sources."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from started import started

import whence

data, store, run = sys.argv[1:4]
more = [a for a in sys.argv[4:] if a.startswith("spark.")]
wheres = [a for a in sys.argv[4:] if not a.startswith("spark.")]
conf = {"spark.dynamicAllocation.enabled": "false", **dict(a.split("=", 1) for a in more)}
spark = started("local[2]", sys.executable, Path.cwd(), **conf)
found: dict[str, Any] = {}
with whence.attach(spark, store=store) as w:
    for name in wheres:
        path = f"{data}/{name}"
        df = spark.read.text(path) if name in ("counts", "chosen") else spark.read.parquet(path)
        trace = w.backward(df)
        found[name] = {
            "sources": {source: rows.count() for source, rows in trace.sources.items()},
            "exact": trace.exact,
            "ended": [str(note) for note in trace.ended],
        }
    again = w.reopen(run)
    first, last = again.workflow.nodes[0], again.workflow.nodes[-1]
    found["arrays"] = len(again.backward(last, [(3, 4)], to=first))
    found["saved"] = [trace.name for trace in w.catalog.traces.list(9)]
    found["edges"] = sorted(
        {(e.source.name.rsplit("/", 1)[-1], e.target.name.rsplit("/", 1)[-1]) for e in w.catalog.edges()}
    )
found["left here"] = sorted(name for name in os.listdir(".") if name not in ("stderr", "warehouse", "artifacts"))
spark.stop()
print(json.dumps(found))
