"""Titian's running example (figures 1, 5, 6, 7, 10 and 12 of the paper) on a small log.

python examples/rdd_log_analysis.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

import whence

DESCRIPTIONS = {"1": "Timeout", "2": "Disk full", "3": "No route", "4": "Failure"}
LOG = """\
INFO\t0\tGuest\tSTORAGE started
ERROR\t4\tGuest\tNETWORK Zookeeper lost its leader
ERROR\t1\tadmin\tNETWORK no answer in 30 s
INFO\t0\tadmin\tSTORAGE compacted
ERROR\t4\tadmin\tSTORAGE Zookeeper log is corrupt
ERROR\t2\tGuest\tSTORAGE 0 bytes left
ERROR\t4\tGuest\tSCHEDULER worker died
ERROR\t3\tadmin\tNETWORK eth0 is down
"""


def main() -> None:
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory() as home, whence.attach(spark, store=home) as w:
        log = Path(home) / "log.tsv"
        log.write_text(LOG)

        # Figure 1: how often each error occurs
        lines = w.context.textFile(str(log))
        errors = lines.filter(lambda line: line.startswith("ERROR"))
        codes = errors.map(lambda line: line.split("\t")[1])
        pairs = codes.map(lambda code: (code, 1))
        counts = pairs.reduceByKey(lambda a, b: a + b)
        reports = counts.map(lambda kv: (DESCRIPTIONS[kv[0]], kv[1]))
        print("reports:", sorted(reports.collect()))

        # Figure 5: the input lines with the most frequent error
        frequent_pair = reports.sortBy(lambda kv: kv[1], ascending=False).take(1)[0]
        frequent = reports.filter(lambda kv: kv == frequent_pair)
        print("\nlines of the most frequent error:")
        frequent.getLineage().goBackAll().show()

        # Figure 6: the reports that network errors went into
        network = lines.filter(lambda line: "NETWORK" in line)
        print("\nreports touched by the network:", sorted(network.getLineage().goNextAll().collect()))

        # Figure 7: the same computation without Guest's lines
        without_guest = reports.getLineage().goBackAll().filter(lambda line: "Guest" not in line)
        again = (
            without_guest.map(lambda line: (line.split("\t")[1], 1))
            .reduceByKey(lambda a, b: a + b)
            .map(lambda kv: (DESCRIPTIONS[kv[0]], kv[1]))
        )
        print("\nreports without Guest:", sorted(again.collect()))

        # Figures 10 and 12: back from one report, and on with an ordinary filter
        failure = reports.filter(lambda kv: kv[0] == "Failure").getLineage().goBackAll()
        print("\nFailures of Zookeeper:", failure.filter(lambda line: "Zookeeper" in line).collect())
    spark.stop()


if __name__ == "__main__":
    main()
