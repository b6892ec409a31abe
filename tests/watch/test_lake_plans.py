"""MERGE, UPDATE and versions of lake formats, on plans as their own connectors give them.

No Iceberg or Delta release runs on the newest Spark yet, so these are plans as the listener writes them (Iceberg 1.12
on Spark 4.1), cut to what matters.
"""

from __future__ import annotations

from typing import Any

from whence.watch.parse import observe
from whence.watch.sources import Place

ICE = {"catalog": "ice", "warehouse": "/ice"}


def relation(name: str, ids: tuple[int, int], version: str) -> dict[str, Any]:
    return {
        "c": "DataSourceV2Relation",
        "f": {
            "table": {"c": "SparkTable", "class": "org.apache.iceberg.spark.source.SparkTable",
                      "name": f"ice.db.{name}", "properties": {}, "location": f"/ice/db/{name}",
                      "version": version, "options": {}},
            "catalog": ICE,
            "identifier": {"name": name, "namespace": ["db"]},
            "options": {},
        },
        "out": [[ids[0], "id", "bigint"], [ids[1], "name", "string"]],
    }  # fmt: skip


def test_created_and_read_are_one_dataset_with_its_version() -> None:
    name = {"catalog": ICE, "identifier": {"name": "t1", "namespace": ["db"]}}
    create = {"c": "CreateTable", "f": {"columns": []}, "k": [{"c": "ResolvedIdentifier", "f": name}]}
    append = {"c": "AppendData", "f": {"table": {"plan": relation("t2", (3, 4), "22")}}, "k": [
        {"c": "Project", "f": {"projectList": [1, 2]}, "o": [[1, "id", "bigint"], [2, "name", "string"]],
         "k": [relation("t1", (1, 2), "11")]}]}  # fmt: skip
    made = observe({"plan": create}, Place())
    written = observe({"plan": append}, Place())
    assert made is not None
    assert written is not None
    (target,) = made.datasets
    source = written.datasets[written.links[0].source]
    assert (target.namespace, target.name) == (source.namespace, source.name) == ("/ice", "db.t1")
    assert source.version == "11"
    assert ("file", "/ice/db/t1") in source.aliases
    assert [(written.datasets[link.source].name, written.datasets[link.target].name) for link in written.links] == [
        ("db.t1", "db.t2")
    ]


def test_merge_rewritten_by_spark() -> None:
    merge = {
        "c": "ReplaceData",
        "f": {
            "table": {"plan": relation("t2", (3, 4), "22")},
            "originalTable": {"plan": relation("t2", (3, 4), "22")},
            "condition": {"c": "EqualTo", "k": [3, 1]},
        },
        "k": [
            {
                "c": "MergeRows",
                "f": {
                    "matchedInstructions": [{"c": "Keep", "k": [{"c": "Literal"}, 3, 2]}],
                    "notMatchedInstructions": [{"c": "Keep", "k": [{"c": "IsNotNull", "k": [2]}, 1, 2]}],
                    "output": [5, 6],
                },
                "o": [[5, "id", "bigint"], [6, "name", "string"]],
                "k": [
                    {
                        "c": "Join",
                        "f": {"condition": {"c": "EqualTo", "k": [3, 1]}},
                        "k": [relation("t2", (3, 4), "22"), relation("t1", (1, 2), "11")],
                    }
                ],
            }
        ],
    }
    found = observe({"plan": merge}, Place())
    assert found is not None
    names = [d.name for d in found.datasets]
    assert [(names[link.source], names[link.target], link.kind) for link in found.links] == [
        ("db.t2", "db.t2", "merge"),
        ("db.t1", "db.t2", "merge"),
    ]
    direct = {
        (names[c.source], c.source_column, c.target_column, c.subtype) for c in found.columns if c.kind == "DIRECT"
    }
    assert direct == {("db.t1", "id", "id", "IDENTITY"), ("db.t1", "name", "name", "IDENTITY")}, "t2.id stays as it is"
    assert any(c.subtype == "CONDITIONAL" and c.source_column == "name" for c in found.columns)
    assert "gaps" not in found.run.details


def test_an_unknown_operator_is_a_gap_and_not_a_hole() -> None:
    plan = {"c": "Mystery", "f": {}, "o": [[9, "out", "int"]], "k": [{**relation("t1", (1, 2), "11")}]}
    write = {"c": "AppendData", "f": {"table": {"plan": relation("t2", (3, 4), "22")}}, "k": [plan]}
    found = observe({"plan": write}, Place())
    assert found is not None
    assert found.run.details["gaps"] == {"Mystery": 1}
    assert {(c.source_column, c.subtype) for c in found.columns} == {
        ("id", "TRANSFORMATION"),
        ("name", "TRANSFORMATION"),
    }
