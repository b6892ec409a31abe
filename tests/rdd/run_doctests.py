"""PySpark's own RDD examples on LineageRDDs, in the surroundings they were written for (a program, local[4]).

With capture off, RDDs are PySpark's own underneath: some examples show that the way there is open.

An example that fails is tried on a plain SparkContext too; where that fails as well, it is not ours. Prints the rest.
"""

from __future__ import annotations

import doctest
import sys
import tempfile
import time

import numpy as np
from pyspark import RDD, SparkConf, SparkContext

from whence.rdd import LineageContext

np.set_printoptions(legacy="1.25")
METHODS = sorted(
    name for name in dir(RDD) if callable(getattr(RDD, name)) and ">>> " in (getattr(RDD, name).__doc__ or "")
)
OFF = ["join", "sortBy", "cartesian", "checkpoint", "lookup", "zipWithIndex", "treeReduce"]


def run(sc: SparkContext, name: str) -> list[str]:
    globs = {**vars(sys.modules[RDD.__module__]), "sc": sc}
    failed: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS, verbose=False)
    for test in doctest.DocTestFinder(recurse=False).find(
        getattr(RDD, name), name, module=sys.modules[RDD.__module__], globs=globs
    ):
        runner.run(test, out=failed.append, clear_globs=False)
    return failed


def main() -> int:
    conf = SparkConf().set("spark.ui.enabled", "false").set("spark.driver.bindAddress", "127.0.0.1")
    sc = SparkContext("local[4]", "PythonTest", conf=conf.set("spark.driver.host", "127.0.0.1"))
    sc.setLogLevel("OFF")
    bad = 0
    with tempfile.TemporaryDirectory() as home:
        sc.setCheckpointDir(home + "/checkpoints")
        for captured, methods in ((True, METHODS), (False, OFF)):
            lc = LineageContext(sc, home)
            lc.capture = captured
            for name in methods:
                start = time.perf_counter()
                failed = run(lc, name)
                if failed and not run(sc, name):
                    failed = run(lc, name)  # some examples wait for an approximate answer, in milliseconds
                    bad += bool(failed)
                    sys.stdout.writelines(failed)
                print(f"{name}: {time.perf_counter() - start:.1f} s", file=sys.stderr)
            print(f"{len(methods)} methods")
    sc.stop()
    return bad


if __name__ == "__main__":
    sys.exit(main())
