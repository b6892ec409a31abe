"""What the catalogue says of runs, versions, names and times: one contract for every store."""

from __future__ import annotations

import random
import uuid
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from whence.model import COMPLETED, FAILED, Run, StoreError, UnknownDataset
from whence.model.lineage import DIRECT, INDIRECT, INPUT, Change, ColumnLink, Link, Observation, Seen, Use
from whence.model.types import LIST, Attribute, Entity, EntityType, Relationship
from whence.store import Store

START = datetime(2026, 3, 1, tzinfo=timezone.utc)


def at(hour: float) -> datetime:
    return START + timedelta(hours=hour)


def seen(name: str, kind: str = "table", columns: str = "id name", **rest: object) -> Seen:
    return Seen("wh", name, kind, tuple((c, "int") for c in columns.split()), **rest)  # type: ignore[arg-type]


def write(
    hour: float,
    sources: list[str | Seen],
    target: str | Seen,
    how: str = "append",
    columns: dict | None = None,
    status=COMPLETED,
) -> Observation:
    datasets = [s if isinstance(s, Seen) else seen(s) for s in [*sources, target]]
    last = len(sources)
    run = Run(str(uuid.uuid4()), "query", f"write {hour}", status, None, at(hour), at(hour), "app")
    links = tuple(Link(place, last, "write") for place in range(last))
    found = tuple(
        ColumnLink(0, source, last, target_column, INDIRECT if subtype == "FILTER" else DIRECT, subtype)
        for (source, target_column), subtype in (columns or {}).items()
    )
    return Observation(run, tuple(datasets), (Change(last, how),), links, found)


def names(edges) -> set[tuple[str, str]]:
    return {(e.source.name, e.target.name) for e in edges}


class TestCatalog:
    @pytest.fixture
    def catalog(self, store_url: str):
        store = Store.at(store_url)
        yield store.catalog
        store.close()

    def test_an_append_keeps_what_was_before_and_an_overwrite_does_not(self, catalog) -> None:
        catalog.record(write(1, ["a"], "t", "overwrite"))
        catalog.record(write(2, ["b"], "t", "append"))
        assert names(catalog.lineage("t")) == {("a", "t"), ("b", "t")}
        catalog.record(write(3, ["c"], "t", "overwrite"))
        assert names(catalog.lineage("t")) == {("c", "t")}
        assert names(catalog.edges()) == {("a", "t"), ("b", "t"), ("c", "t")}

    def test_a_restored_table_has_the_inputs_of_then(self, catalog) -> None:
        for hour, source, how in ((1, "a", "overwrite"), (2, "b", "append"), (3, "c", "overwrite")):
            made = write(hour, [source], "t", how)
            catalog.record(replace(made, changes=(replace(made.changes[0], version=str(hour)),)))
        assert names(catalog.lineage("t")) == {("c", "t")}
        for hour, version, sources in ((4, "1", "a"), (5, "2", "ab"), (6, "3", "c"), (7, "5", "ab")):
            back = write(hour, [], seen("t", columns="", version=version), "restore")
            back = replace(back, changes=(replace(back.changes[0], version=str(hour)),), links=(Link(0, 0, "restore"),))
            catalog.record(back)
            assert names(catalog.lineage("t")) == {("t", "t"), *((name, "t") for name in sources)}
        last = catalog.versions("t")[-1]
        assert (last.how, last.external, last.columns) == ("restore", "7", (("id", "int"), ("name", "int")))

    def test_lineage_as_of_a_time_and_the_difference_between_two(self, catalog) -> None:
        catalog.record(write(1, ["a"], "t", "overwrite"))
        catalog.record(write(3, ["b"], "t", "overwrite"))
        assert names(catalog.lineage("t", as_of=at(2))) == {("a", "t")}
        assert names(catalog.lineage("t", as_of=at(2).isoformat())) == {("a", "t")}
        assert names(catalog.lineage("t", as_of=at(4))) == {("b", "t")}
        added, removed = catalog.diff(at(2), at(4))
        assert (names(added), names(removed)) == ({("b", "t")}, {("a", "t")})
        added, removed = catalog.diff(at(0), at(2), dataset="t")
        assert (names(added), names(removed)) == ({("a", "t")}, set())

    def test_what_was_read_counts_not_what_came_later(self, catalog) -> None:
        catalog.record(write(1, ["a"], "b", "overwrite"))
        catalog.record(write(2, ["b"], "c", "overwrite"))
        catalog.record(write(3, ["z"], "b", "overwrite"))
        assert names(catalog.lineage("c")) == {("b", "c"), ("a", "b")}
        assert names(catalog.lineage("b")) == {("z", "b")}
        assert names(catalog.lineage("a", direction="forward")) == {("a", "b"), ("b", "c")}
        assert names(catalog.lineage("z", direction="forward")) == {("z", "b")}

    def test_depth_and_cycles(self, catalog) -> None:
        for hour, (source, target) in enumerate([("a", "b"), ("b", "c"), ("c", "a"), ("a", "b")]):
            catalog.record(write(hour, [source], target))
        assert names(catalog.lineage("b", depth=1)) == {("a", "b")}
        assert names(catalog.lineage("b")) == {("a", "b"), ("b", "c"), ("c", "a")}
        assert [e.depth for e in catalog.lineage("b", depth=2)] == [1, 2]

    def test_columns_and_links_that_reach_every_column(self, catalog) -> None:
        links = {("id", "id"): "IDENTITY", ("name", "*"): "FILTER"}
        catalog.record(write(1, ["a"], "t", columns=links))
        catalog.record(write(2, ["t"], "u", columns={("id", "key"): "TRANSFORMATION"}))
        found = {(e.source_column, e.target_column, e.kind, e.subtype) for e in catalog.edges("column", target="t")}
        assert found == {
            ("id", "id", "DIRECT", "IDENTITY"),
            ("name", "id", "INDIRECT", "FILTER"),
            ("name", "name", "INDIRECT", "FILTER"),
        }
        walked = catalog.lineage("u", column="key")
        assert {(e.source.name, e.source_column, e.target_column, e.depth) for e in walked} == {
            ("t", "id", "key", 1),
            ("a", "id", "id", 2),
            ("a", "name", "id", 2),
        }
        forward = catalog.lineage("a", direction="forward", column="id")
        assert {(e.target.name, e.target_column) for e in forward} == {("t", "id"), ("u", "key")}

    def test_a_struct_and_its_field_have_to_do_with_each_other(self, catalog) -> None:
        catalog.record(write(1, ["a"], "t", columns={("x", "s"): "TRANSFORMATION"}))
        catalog.record(write(2, ["t"], "u", columns={("s.f", "f"): "IDENTITY"}))
        assert {e.source_column for e in catalog.lineage("u", column="f")} == {"s.f", "x"}
        assert {e.target_column for e in catalog.lineage("a", direction="forward", column="x")} == {"s", "f"}

    def test_equal_runs_share_their_column_links(self, catalog) -> None:
        for hour in range(5):
            catalog.record(write(hour, ["a"], "t", "overwrite", {("id", "id"): "IDENTITY"}))
        assert len(catalog.edges("column")) == 5
        assert len(catalog.lineage("t", level="column")) == 1
        with catalog._reading() as connection:
            assert connection.exec_driver_sql("SELECT count(*) FROM mapping_columns").scalar() == 1

    def test_path_and_table_are_one_dataset(self, catalog) -> None:
        path = Seen("file", "/wh/t", "path")
        table = seen("default.t", aliases=(("file", "/wh/t"), ("wh", "spark_catalog.default.t")))
        catalog.record(write(1, ["a"], path))
        catalog.record(write(2, [table], "b"))
        assert names(catalog.lineage("b")) == {("default.t", "b"), ("a", "default.t")}
        for name in ("t", "default.t", "spark_catalog.default.t", "/wh/t", ("file", "/wh/t")):
            assert catalog.dataset(name).name == "default.t"
        assert catalog.dataset("t").kind == "table"

    def test_a_table_and_its_path_known_apart_become_one(self, catalog) -> None:
        catalog.record(write(1, ["a"], Seen("file", "/wh/t", "path")))
        catalog.record(write(2, ["b"], seen("default.t")))
        catalog.record(write(3, [seen("default.t", aliases=(("file", "/wh/t"),))], "c"))
        assert {e.source.name for e in catalog.lineage("default.t")} == {"a", "b"}
        assert len([d for d in catalog.datasets() if d.name.endswith("t")]) == 1

    def test_a_renamed_table_keeps_its_history_and_frees_its_name(self, catalog) -> None:
        catalog.record(write(1, ["a"], "t"))
        run = Run("rename", "query", "", COMPLETED, None, at(2), at(2))
        catalog.record(Observation(run, (seen("t"), seen("u")), (Change(0, "rename", 1),)))
        catalog.record(write(3, ["b"], "t"))
        assert names(catalog.lineage("u")) == {("a", "u")}
        assert names(catalog.lineage("t")) == {("b", "t")}
        assert names(catalog.lineage("t", as_of=at(1.5))) == {("a", "u")}
        assert ("wh", "t") in catalog.aliases("u")

    def test_a_dropped_table_keeps_its_history(self, catalog) -> None:
        catalog.record(write(1, ["a"], "t"))
        run = Run("drop", "query", "", COMPLETED, None, at(2), at(2))
        catalog.record(Observation(run, (seen("t"),), (Change(0, "drop"),)))
        assert catalog.dataset("t").dropped == at(2)
        assert "t" not in {d.name for d in catalog.datasets(dropped=False)}
        assert names(catalog.lineage("t", as_of=at(1.5))) == {("a", "t")}
        assert names(catalog.lineage("t")) == set()
        catalog.record(write(3, ["b"], "t", "overwrite"))
        assert catalog.dataset("t").dropped is None
        assert [v.how for v in catalog.versions("t")] == ["append", "drop", "overwrite"]

    @pytest.mark.parametrize("seed", range(3))
    def test_what_is_recorded_together_is_what_is_recorded_one_by_one(self, catalog, tmp_path, seed: int) -> None:
        """Names change their meaning within a batch too: renames, drops, paths that turn out to be tables."""
        chance = random.Random(seed)
        observations = []
        for hour in range(1, 60):
            t = chance.choice("abcd")
            table = seen(f"default.{t}", aliases=(("file", f"/wh/{t}"),) if chance.random() < 0.3 else ())
            other = Seen("file", f"/wh/{t}", "path") if chance.random() < 0.2 else f"default.{chance.choice('abcd')}"
            kind = chance.choice(["append", "overwrite", "overwrite", "drop", "rename"])
            run = Run(f"{kind}-{hour}", "query", "", COMPLETED, None, at(hour), at(hour))
            if kind == "drop":
                observations.append(Observation(run, (table,), (Change(0, "drop"),)))
            elif kind == "rename":
                new = seen(f"default.{chance.choice('efgh')}")
                observations.append(Observation(run, (table, new), (Change(0, "rename", 1),)))
            else:
                observations.append(write(hour, [other], table, kind, {("id", "id"): "IDENTITY"}))
        alone = Store.at(tmp_path / "alone")
        for observation in observations:
            alone.catalog.record(observation)
        catalog.record(*observations)

        def told(of) -> list[object]:
            known = list(of.datasets())
            return [
                [(d, d.kind, d.version, d.dropped, of.aliases(d)) for d in known],
                [[(v.number, v.run, v.how, v.columns) for v in of.versions(d)] for d in known],
                {(e, e.source_version, e.target_version) for e in of.edges("column")},
                [[(e, e.depth) for e in of.lineage(d)] for d in known],
            ]

        assert told(catalog) == told(alone.catalog)
        alone.close()

    def test_versions_of_the_format_itself(self, catalog) -> None:
        catalog.record(write(1, ["a"], seen("d", version="0"), "overwrite"))
        catalog.record(write(2, ["b"], seen("d", version="1"), "overwrite"))
        catalog.record(write(3, [seen("d", version="0")], "old"))
        catalog.record(write(4, [seen("d", version="1")], "new"))
        assert names(catalog.lineage("old")) == {("d", "old"), ("a", "d")}
        assert names(catalog.lineage("new")) == {("d", "new"), ("b", "d")}
        assert [v.external for v in catalog.versions("d")] == ["0", "1"]

    def test_a_failed_run_is_kept_and_makes_nothing(self, catalog) -> None:
        catalog.record(write(1, ["a"], "t", status=FAILED))
        assert [r.status for r in catalog.runs()] == [FAILED]
        assert len(catalog.edges()) == 0

    def test_a_failed_run_keeps_what_it_read_and_was_to_write(self, catalog) -> None:
        catalog.record(write(1, ["z"], "a", "overwrite"))
        failed = write(2, ["a", "new"], "t", "overwrite", status=FAILED)
        catalog.record(failed)
        assert [(u.dataset.name, u.version) for u in catalog.inputs(failed.run)] == [("a", 1), ("new", None)]
        assert [(u.dataset.name, u.version) for u in catalog.outputs(failed.run)] == [("t", None)]
        assert [(u.run, u.role) for u in catalog.uses("t")] == [(failed.run.id, "output")]
        assert len(catalog.versions("t")) == len(catalog.lineage("t")) == 0
        assert names(catalog.edges()) == {("z", "a")}

    def test_rows_and_bytes_of_what_a_run_read_and_wrote(self, catalog) -> None:
        read = Run("read", "query", "collect", COMPLETED, None, at(1), at(1), "app")
        catalog.record(Observation(read, (seen("a"),), uses=(Use(0, INPUT, 7, 2**40),)))
        assert [(u.dataset.name, u.role, u.version, u.rows, u.bytes) for u in catalog.inputs("read")] == [
            ("a", "input", 1, 7, 2**40)
        ]
        assert len(catalog.edges()) == len(catalog.outputs("read")) == 0
        (application,) = catalog.applications()
        assert ([d.name for d in application.inputs], application.outputs) == (["a"], ())

    def test_columns_stay_with_a_renamed_table(self, catalog) -> None:
        catalog.record(write(1, ["a"], "t"))
        run = Run("rename", "query", "", COMPLETED, None, at(2), at(2))
        old, new = Seen("wh", "t", "table"), Seen("wh", "u", "table")
        catalog.record(Observation(run, (old, new), (Change(0, "rename", 1),)))
        assert catalog.dataset("u").columns == ("id", "name")

    def test_names_that_are_unknown_or_not_enough(self, catalog) -> None:
        catalog.record(write(1, ["x.a"], "y.a"))
        with pytest.raises(UnknownDataset, match="knows no dataset 'nothing'"):
            catalog.lineage("nothing")
        with pytest.raises(UnknownDataset, match="any of 2 datasets"):
            catalog.lineage("a")
        with pytest.raises(ValueError, match="level='row'"):
            catalog.edges(level="row")

    def test_results_are_tables_too(self, catalog) -> None:
        catalog.record(write(1, ["a"], "t"))
        frame = catalog.edges().toPandas()
        assert frame[["source_namespace", "source", "target", "kind"]].to_dict("records") == [
            {"source_namespace": "wh", "source": "a", "target": "t", "kind": "write"}
        ]
        assert "<td>a</td>" in catalog.edges()._repr_html_()
        assert [d.name for d in catalog.lineage("t").datasets] == ["a", "t"]

    def test_users_add_types_entities_and_relationships(self, catalog) -> None:
        entities = catalog.entities
        assert {"spark_table", "kafka_topic", "spark_ml_model"} <= set(entities.types())
        kind = EntityType(
            "report", (Attribute("pages", "int", optional=False), Attribute("tags", cardinality=LIST)), ("DataSet",)
        )
        entities.add_type(kind)
        entities.add_type(kind)
        assert entities.types()["report"] == kind
        one = Entity("report", "weekly", {"name": "weekly", "pages": 3, "tags": ["a"]})
        entities.add(one)
        entities.add(Entity("report", "daily", {"name": "daily", "pages": 1}))
        assert [e.qualified_name for e in entities.list("report")] == ["daily", "weekly"]
        assert entities.get("report", "weekly").attributes["pages"] == 3
        entities.relate(Relationship("sums up", ("report", "weekly"), ("report", "daily")))
        assert [(r.kind, r.source[1], r.target[1]) for r in entities.relationships()] == [
            ("sums up", "weekly", "daily")
        ]
        entities.delete("report", "daily")
        assert [e.qualified_name for e in entities.list("report")] == ["weekly"]
        for bad, sentence in (
            (Entity("nothing", "x"), "knows no type 'nothing'"),
            (Entity("report", "x", {"name": "x"}), "needs the attribute 'pages'"),
            (Entity("report", "x", {"name": "x", "pages": 1, "size": 2}), "no attribute 'size'"),
            (Entity("report", "x", {"name": "x", "pages": 1, "tags": "a"}), "many-valued"),
        ):
            with pytest.raises(StoreError, match=sentence):
                entities.add(bad)
