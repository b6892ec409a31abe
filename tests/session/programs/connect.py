"""A client of Spark Connect, without a JVM: python connect.py <store> <port of the server>"""

import json
import sys
import warnings

from pyspark.sql import SparkSession
from pyspark.sql.functions import udf

import whence
from whence.arrays import Workflow, ops

store, port = sys.argv[1:]
spark = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").getOrCreate()
found = {}
with whence.attach(spark, store=store) as w:
    found["kind"] = type(w).__name__
    found["datasets"] = sorted(dataset.name.rsplit("/", 1)[-1] for dataset in w.catalog.datasets())
    edges = w.catalog.edges(level="column")
    found["edges"] = sorted({(edge.source_column, edge.target_column) for edge in edges if edge.kind == "DIRECT"})

    rows = [(i, ("a", "b", "c")[i % 3], float(i)) for i in range(60)]
    every = spark.createDataFrame(rows, "id int, shop string, amount double")
    told = w.explain(every.where("shop = 'b'"), every.where("shop <> 'b'"))
    found["explained"] = [[condition[0] for condition in cause.conditions] for cause in told.causes]

    try:
        w.explain(every, "rows")
    except whence.WhenceError as wrong:
        found["not a DataFrame"] = str(wrong)

    actor = w.register("parser", kind="map")
    for line in range(4):
        actor.capture(f"line {line}", f"word {line // 2}")
    actor.commit()
    found["traced"] = sorted(w.trace(["word 1"], root=actor).records)

    doubler = w.register("doubler", kind="map")

    @udf("long")
    def double(n):
        with doubler.task(n) as task:
            task.capture(n, 2 * n)
        return 2 * n

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found["doubled"] = [row[0] for row in spark.range(3).select(double("id")).collect()]
    found["warned"] = any("client of Spark Connect" in str(warning.message) for warning in said)
    doubler.commit()
    found["traced in a UDF"] = list(w.trace([4], root=doubler).records)

    wf = Workflow()
    image = wf.input("image")
    turned = wf.add(ops.Transpose(), image)
    run = w.execute(wf, {"image": [[1, 2], [3, 4]]})
    found["cells"] = run.backward(turned, [(0, 1)], to=image).tolist()

    asked = {
        "backward": lambda: w.backward(every),
        "forward": lambda: w.forward(every, to=every),
        "why_not": lambda: w.why_not(every, to=every),
        "history": lambda: w.history(every),
        "verify": lambda: w.verify(every),
        "minimize": lambda: w.minimize(every, bool),
        "strategy": lambda: w.strategy(),
        "capture": lambda: w.capture().__enter__(),
        "guard": lambda: w.guard().__enter__(),
        "context": lambda: w.context,
        "mine": lambda: w.mine(every),
        "clean": lambda: w.clean(every),
        "chunks": lambda: w.execute(wf, {"image": [[1]]}, chunks=1),
    }
    found["refused"] = {}
    for name, ask in asked.items():
        try:
            ask()
        except whence.ConnectUnsupported as error:
            found["refused"][name] = str(error)
found["works"] = spark.range(3).count()  # the user's session is not disturbed
diagnosis = whence.diagnose(lambda config: config["n"] < 3, {"n": [1, 2, 3, 4]}, seed=0)
found["diagnosed"] = [str(condition) for cause in diagnosis.causes for condition in cause.conditions]
spark.stop()
print(json.dumps(found, default=int))  # Spark 3.5 gives numbers of numpy
