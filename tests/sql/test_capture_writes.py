"""A trace goes on through tables that captured writes made, to the first sources, across jobs."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import whence
from whence.spark.allowed import names_class, reading_options
from whence.sql import plans

ORDERS = [(i, f"c{i % 3}", i * 10) for i in range(12)]


@pytest.fixture(scope="module")
def written(tiny: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("written") / "orders"
    frame = tiny.createDataFrame(ORDERS, "rid bigint, customer string, amount bigint").repartition(2, "rid")
    frame.write.parquet(str(folder))
    return folder


@pytest.fixture
def home(tmp_path: Path, written: Path) -> Path:
    """Files of its own for each test: some change them."""
    shutil.copytree(written, tmp_path / "orders")
    return tmp_path


@pytest.fixture
def session(tiny: SparkSession, home: Path) -> Iterator[whence.Session]:
    with whence.attach(tiny, store=home / "store") as w:
        yield w


def rids(df: DataFrame) -> set[int]:
    return {row.rid for row in df.select("rid").collect()}


def of(customer: str) -> set[int]:
    return {rid for rid, c, _ in ORDERS if c == customer}


def test_append_overwrite_and_what_others_wrote(session: whence.Session, home: Path) -> None:
    spark = session.spark
    orders = spark.read.parquet(str(home / "orders"))
    target = str(home / "kept")

    def read() -> DataFrame:
        return spark.read.parquet(target)

    with session.capture():
        orders.where("customer = 'c0'").write.parquet(target)
        orders.where("customer = 'c1'").select("rid", "customer", F.col("amount") * 2).toDF(
            "rid", "customer", "amount"
        ).write.mode("append").parquet(target)
    trace = session.backward(read().where("amount >= 40"))
    assert rids(trace["orders"]) == {rid for rid, c, a in ORDERS if (c == "c0" and a >= 40) or (c == "c1" and a >= 20)}
    assert trace.verify().ok
    touched = session.forward(orders.where("rid = 4"), to=read())
    assert [tuple(row) for row in touched.rows.collect()] == [(4, "c1", 80)]
    with session.capture():
        orders.where("customer = 'c2'").write.mode("overwrite").parquet(target)
    assert rids(session.backward(read())["orders"]) == of("c2")
    orders.limit(1).write.mode("append").parquet(target)  # not captured
    trace = session.backward(read().where("customer = 'c2'"))
    assert list(trace.sources) == ["kept"]
    assert "1 of its" in trace.notes[0]


def test_appends_of_one_source_open_it_once(
    session: whence.Session, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark = session.spark
    orders = spark.read.parquet(str(home / "orders"))
    target = str(home / "pairs")
    with session.capture():
        for customer in ("c0", "c1", "c2"):  # each reads the source twice
            one = orders.where(f"customer = '{customer}'")
            other = orders.selectExpr("rid - 1 as rid", "amount as next")
            one.join(other, "rid").write.mode("append").parquet(target)
    opened: list[object] = []
    frame_of = plans._frame
    monkeypatch.setattr(plans, "_frame", lambda c, leaf: opened.append(leaf) or frame_of(c, leaf))
    with whence.attach(spark, store=home / "store") as later:
        pairs = spark.read.parquet(target)
        trace = later.backward(pairs.where("rid in (3, 7)"))
        assert [found for reading in trace.readings if (found := rids(reading.rows))] == [{7}, {8}, {3}, {4}]
        assert trace.exact
        assert trace.verify().ok
        assert len(opened) == 1
        # Both sides of a join are made from the same appends.
        both = pairs.alias("a").join(pairs.alias("b"), F.expr("a.rid = b.rid + 1")).where("a.rid = 5")
        assert rids(later.backward(both)["orders"]) == {4, 5, 6}


@pytest.mark.parametrize("condition", ["tags <=> array('a')", "pair <=> named_struct('x', 2L)", "not tags <=> array()"])
def test_conditions_that_spark_cannot_give_to_the_source_of_a_table(
    session: whence.Session, home: Path, condition: str
) -> None:
    """Parquet takes them, JSON does not: a trace asks the source what the user asked of the table."""
    lines = [f'{{"rid": {i}, "tags": ["a"], "pair": {{"x": 2}}}}' if i < 2 else f'{{"rid": {i}}}' for i in range(4)]
    (home / "lines.json").write_text("\n".join(lines))
    schema = "rid bigint, tags array<string>, pair struct<x: bigint>"
    with session.capture():
        session.spark.read.schema(schema).json(str(home / "lines.json")).write.parquet(str(home / "kept"))
    asked = session.spark.read.parquet(str(home / "kept")).where(condition)
    expected = rids(asked)
    with whence.attach(session.spark, store=home / "store") as later:
        for w in (session, later):
            trace = w.backward(asked)
            assert rids(trace["lines.json"]) == expected
            assert trace.verify().ok
            assert rids(trace.replay()) == expected
            assert trace.exclude().collect() == []


def test_tables_and_partitions(session: whence.Session, home: Path) -> None:
    spark = session.spark
    orders = spark.read.parquet(str(home / "orders"))
    try:
        with session.capture():
            orders.write.saveAsTable("whence_kept")
            spark.sql("create table whence_parts using parquet partitioned by (customer) as select * from whence_kept")
            spark.sql("insert into whence_kept select rid + 100, customer, amount from whence_kept where rid < 2")
        assert rids(session.backward(spark.table("whence_kept").where("rid >= 100"))["orders"]) == {0, 1}
        assert rids(session.backward(spark.table("whence_parts").where("amount > 90"))["orders"]) == {10, 11}
        spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
        with session.capture():
            orders.where("rid = 5").select("rid", "amount", F.lit("c1").alias("customer")).write.mode(
                "overwrite"
            ).insertInto("whence_parts")
        trace = session.backward(spark.table("whence_parts").where("customer <> 'c0'"))
        assert rids(trace["orders"]) == of("c2") | {5}
        assert trace.verify().ok
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
        spark.sql("drop table if exists whence_kept")
        spark.sql("drop table if exists whence_parts")


@pytest.mark.parametrize("kind", ["orc", "json", "csv"])
def test_other_formats(session: whence.Session, home: Path, kind: str) -> None:
    orders = session.spark.read.parquet(str(home / "orders"))
    with session.capture():
        df = orders.groupBy("customer").agg(F.avg("amount").alias("mean"), F.min("rid").alias("rid"))
        df.write.format(kind).save(str(home / "other"))
    reader = session.spark.read.format(kind).schema("customer string, mean double, rid bigint")
    trace = session.backward(reader.load(str(home / "other")).where("mean > 50"))
    assert rids(trace["orders"]) == {rid for c in ("c0", "c1", "c2") if sum(of(c)) * 10 / 4 > 50 for rid in of(c)}
    assert trace.verify().ok


def test_a_source_that_changed_ends_the_trace_at_the_table(session: whence.Session, home: Path) -> None:
    spark = session.spark
    with session.capture():
        spark.read.parquet(str(home / "orders")).groupBy("customer").count().write.parquet(str(home / "counts"))
    spark.createDataFrame(ORDERS[:5], "rid bigint, customer string, amount bigint").write.mode("overwrite").parquet(
        str(home / "orders")
    )
    trace = session.backward(spark.read.parquet(str(home / "counts")))
    assert list(trace.sources) == ["counts"]
    assert "changed since" in trace.notes[0]
    assert trace.exact


def test_the_catalogue_sees_what_the_user_wrote(session: whence.Session, home: Path) -> None:
    with session.capture():
        df = session.spark.read.parquet(str(home / "orders")).selectExpr("customer", "rand() r")
        df.write.parquet(str(home / "random"))
    edges = {(edge.source.name, edge.target.name) for edge in session.catalog.edges()}
    assert edges == {(str(home / "orders"), str(home / "random"))}


def test_a_streams_batch(session: whence.Session, home: Path) -> None:
    """A batch is the stream's query over its files: these are the first source."""
    spark = session.spark
    schema = "rid bigint, customer string, amount bigint"

    def keep(batch: DataFrame, number: int) -> None:
        batch.groupBy("customer").agg(F.sum("amount").alias("total")).write.mode("append").parquet(str(home / "sums"))

    stream = spark.readStream.schema(schema).parquet(str(home / "orders"))
    with session.capture():
        query = stream.writeStream.foreachBatch(keep).trigger(availableNow=True).start()
        query.awaitTermination()
    trace = session.backward(spark.read.parquet(str(home / "sums")).where("customer = 'c2'"))
    assert list(trace.sources) == ["orders"]
    assert rids(trace["orders"]) == of("c2")
    assert trace.notes == ()
    assert trace.verify().ok


def test_views_and_python_operators_are_followed_from_another_process(
    session: whence.Session, tiny: SparkSession, home: Path
) -> None:
    """Each is asked by a session that knows no more than the store does."""
    spark = session.spark
    orders = spark.read.parquet(str(home / "orders"))
    orders.createOrReplaceTempView("whence_orders")
    orders.createOrReplaceGlobalTempView("whence_global")

    @F.udtf(returnType="twice bigint")  # type: ignore[attr-defined]
    class Twice:
        def eval(self, value: int) -> Iterator[tuple[int]]:
            yield (2 * value,)

    spark.udtf.register("twice", Twice)
    schema = orders.schema
    groups = orders.groupBy("customer")
    text = "select rid, customer, amount from whence_orders"
    spark.sql("create or replace temporary view whence_two as select * from whence_orders where amount > 20")
    frames = {
        "nested": spark.sql(f"with o as ({text}) select * from o where rid in (select rid from whence_two)"),
        "scalar": spark.sql(f"{text} where rid >= (select min(rid) from whence_two where customer = 'c1')"),
        "without": spark.sql(f"{text} except select * from whence_two intersect all select * from whence_two"),
        "global": spark.sql("select * from global_temp.whence_global"),
        "mapped": orders.mapInPandas(lambda batches: batches, schema),
        "applied": groups.applyInPandas(lambda frame: frame, schema),
        "grouped": groups.cogroup(groups).applyInPandas(lambda one, _: one, schema),
        "called": spark.sql("select o.rid, o.customer, t.twice amount from whence_orders o, lateral twice(o.amount) t"),
    }
    try:
        with session.capture():
            for name, df in frames.items():
                df.write.parquet(str(home / name))
            spark.sql(f"create table whence_base using parquet as {text}")
            spark.sql("create view whence_view as select * from whence_base where customer <> 'c2'")
            spark.sql("create table whence_ctas using parquet as select * from whence_view where rid > 1")
            spark.sql("insert into whence_ctas select * from whence_view where rid = 1")
            spark.sql("insert overwrite whence_base select * from whence_orders")
        with whence.attach(tiny, store=home / "store") as other:
            for name in frames:
                trace = other.backward(spark.read.parquet(str(home / name)).where("customer = 'c1'"))
                assert not trace.notes, name
                (witnesses,) = trace.sources.values()
                few = {"nested": {4, 7, 10}, "scalar": {4, 7, 10}, "without": {1}}
                assert rids(witnesses) == few.get(name, of("c1")), name
            trace = other.backward(spark.table("whence_ctas").where("customer = 'c1'"))
            assert not trace.notes
            assert rids(next(iter(trace.sources.values()))) == of("c1")
    finally:
        spark.sql("drop view if exists whence_view")
        spark.sql("drop table if exists whence_base")
        spark.sql("drop table if exists whence_ctas")
        for view in ("whence_orders", "whence_two"):
            spark.catalog.dropTempView(view)
        spark.catalog.dropGlobalTempView("whence_global")


def test_what_is_written_otherwise_than_computed(session: whence.Session, home: Path) -> None:
    spark = session.spark
    rows = spark.sql(
        "select rid, customer, timestamp'2020-01-01 00:00:00.123456' + make_interval(0,0,0,0,0,0, rid / 10000.0) at, "
        "case when rid % 3 = 0 then '' when rid % 3 = 1 then null else 'a b/c=%' end part from parquet.`"
        f"{home / 'orders'}`"
    )
    upper = rows.select("rid", F.lit("low").alias("k"), F.concat("customer", F.lit("!")).alias("up"))
    target = {name: str(home / name) for name in ("parts", "cased", "millis")}
    try:
        spark.conf.set("spark.sql.caseSensitive", "true")
        with session.capture():
            upper.toDF("rid", "k", "K").write.parquet(target["cased"])
        cased = spark.read.parquet(target["cased"])
        assert rids(session.backward(cased.where("K = 'c1!'"))["orders"]) == of("c1")
        assert session.backward(cased.where("k = 'low'"))["orders"].count() == 12
        spark.conf.set("spark.sql.caseSensitive", "false")
        spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MILLIS")
        with session.capture():
            rows.select("rid", "part").write.partitionBy("part").parquet(target["parts"])
            rows.select("rid", "at").write.parquet(target["millis"])
            spark.sql("create table whence_chars (rid bigint, c char(4), d decimal(10, 1)) using parquet")
            rows.selectExpr("rid", "customer", "rid / 2.0").write.insertInto("whence_chars")
        parts = spark.read.parquet(target["parts"])
        assert rids(session.backward(parts.where("part is null"))["orders"]) == {r for r in range(12) if r % 3 < 2}
        assert rids(session.backward(parts.where("part = 'a b/c=%'"))["orders"]) == {2, 5, 8, 11}
        at = "timestamp'2020-01-01 00:00:00.123'"
        millis = spark.read.parquet(target["millis"])
        within = {row.rid for row in millis.where(f"at = {at}").collect()}
        assert 0 < len(within) < 12
        assert rids(session.backward(millis.where(f"at = {at}"))["orders"]) == within
        chars = spark.table("whence_chars")
        assert rids(session.backward(chars.where("c = 'c1'"))["orders"]) == of("c1")
        assert session.backward(chars.where("length(c) = 4"))["orders"].count() == 12
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
        spark.conf.unset("spark.sql.parquet.outputTimestampType")
        spark.sql("drop table if exists whence_chars")


def test_what_cannot_be_followed_is_told(session: whence.Session, home: Path) -> None:
    spark = session.spark
    orders = spark.read.parquet(str(home / "orders"))
    orders.createOrReplaceTempView("whence_orders")
    try:
        with session.capture():
            spark.sql("create table whence_given using parquet as select * from whence_orders where rid < 0")
            spark.sql("insert into whence_given select * from whence_orders where rid < :n", args={"n": 3})
            spark.sql(f"insert overwrite directory '{home / 'there'}' using parquet select * from whence_orders")
            orders.where("customer = 'c0'").write.partitionBy("customer").parquet(str(home / "parts"))
        ends = {
            "given arguments": spark.table("whence_given"),
            "DIRECTORY is not followed": spark.read.parquet(str(home / "there")),
            "is read otherwise": spark.read.parquet(str(home / "parts" / "customer=c0")),
        }
        for why, df in ends.items():
            (note,) = session.backward(df).notes
            assert why in note
    finally:
        spark.sql("drop table if exists whence_given")
        spark.catalog.dropTempView("whence_orders")


def test_only_what_this_user_signed_is_brought_to_life(
    session: whence.Session, tiny: SparkSession, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = tiny.read.parquet(str(home / "orders"))
    with session.capture():
        orders.where("rid < 3").write.parquet(str(home / "few"))
        orders.where("rid > 3").write.parquet(str(home / "many"))

    def notes() -> tuple[str, ...]:
        with whence.attach(tiny, store=home / "store") as other:
            trace = other.backward(tiny.read.parquet(str(home / "few")))
            assert list(trace.sources) == (["few"] if trace.notes else ["orders"])
            return trace.notes

    files = {path.name: path for path in (home / "store" / "tables" / "sql" / "writes").rglob("*") if path.is_file()}
    assert all(path.stat().st_mode & 0o077 == 0 for path in files.values())
    (few_plan, many_plan) = (files[name] for name in sorted(files) if name.endswith(".plan"))
    (few, many) = (files[name] for name in sorted(files) if name.endswith(".json"))
    plan, content = few_plan.read_bytes(), few.read_bytes()
    assert notes() == ()
    few_plan.write_bytes(many_plan.read_bytes())
    assert "was changed since" in notes()[0]
    few_plan.write_bytes(plan)
    few.write_bytes(many.read_bytes())
    assert "signed for another place" in notes()[0]
    few.write_bytes(content.split(b"\n", 2)[2])
    assert "not signed" in notes()[0]
    few.write_bytes(content)
    monkeypatch.setenv("WHENCE_KEY", "k" * 40)
    assert "another key" in notes()[0]


def test_no_other_classes_than_those_of_plans_are_read(session: whence.Session) -> None:
    c = session._plans()
    foreign = session.spark._jvm.java.io.File("/etc/passwd")  # type: ignore[union-attr]
    with pytest.raises(Exception, match="REJECTED"):
        c.deserialised(c.serialised(foreign))
    assert names_class({"fields": [{"type": {"type": "udt", "pyClass": "os.system"}}]})
    assert reading_options({"header": "true", "fs.s3a.secret.key": "x", "driver": "y"}) == {"header": "true"}
