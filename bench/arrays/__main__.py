"""SubZero's benchmarks: `python -m bench.arrays` (`--only astronomy` for one; `--pictures DIR` for real FITS pictures).

Astronomy (figure 5), genomics (figures 6 and 7, and as it grows) and the operator with given fan (figures 8 and 9);
what the chooser predicts against what is measured; what choosing takes; and how small the lineage of regular numpy
operations is. Ways of keeping lineage are executed in turn, and every answer is compared with the black box's.
"""

from __future__ import annotations

import shutil
import tempfile

import whence
from bench.arrays.measure import of_the_processor
from bench.arrays.run_astronomy import in_astronomy
from bench.arrays.run_choosing import choosing
from bench.arrays.run_genomics import in_genomics
from bench.arrays.run_micro import in_micro
from bench.arrays.run_predicted import predictions
from bench.arrays.run_regular import regular
from bench.arrays.run_scales import growing
from bench.harness import arguments, spark_session

PARTS = {
    "choosing": choosing,
    "astronomy": in_astronomy,
    "genomics": in_genomics,
    "scales": growing,
    "micro": in_micro,
    "predicted": predictions,
    "regular": regular,
}


def main() -> None:
    parser = arguments(__doc__ or "", rounds=3)
    parser.add_argument("--only", choices=PARTS, action="append", help="one part; may be given several times")
    parser.add_argument("--pictures", help="a folder with two FITS pictures of the same sky; without it they are made")
    parser.add_argument("--scale", type=int, default=100, help="how many times the genomics patients are repeated")
    parser.add_argument("--cpu", action="store_true", help="times of the processor, for a machine that others use")
    args = parser.parse_args()
    if args.cpu:
        of_the_processor()
    store = tempfile.mkdtemp(prefix="whence-bench-arrays-")
    spark = spark_session("bench-arrays", memory="1g")
    try:
        with whence.attach(spark, store=store) as w:
            for name in args.only or PARTS:
                PARTS[name](w, args)
    finally:
        spark.stop()
        shutil.rmtree(store, ignore_errors=True)


if __name__ == "__main__":
    main()
