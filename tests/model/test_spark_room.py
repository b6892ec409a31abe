"""Spark's private classes are touched in one room, so that a new release of Spark changes that room alone."""

from __future__ import annotations

import ast
from pathlib import Path

import whence

SOURCES = Path(whence.__file__).parent
JVM = {"_jvm", "_jdf", "_jsc", "_jsparkSession", "_gateway", "_jrdd"}
# A LineageRDD is an RDD of PySpark's: its `_jrdd` is what PySpark itself asks for, and it hands on those of others.
RDDS = {"rdd/physical.py", "rdd/stages.py", "rdd/trace.py", "debug/guard/plain_rdd.py"}


def named(source: str) -> set[tuple[str, int]]:
    """Attributes, and texts that name one as for getattr, with their lines."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr in JVM:
            found.add((node.attr, node.lineno))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in JVM:
            found.add((node.value, node.lineno))
    return found


def asked_in_parts(source: str) -> list[int]:
    """Lines with `jvm.org`, `jvm.PythonUtils` and the like: py4j looks for each part of such a name in every jar, as a
    class of every package that is imported. Whole names, as in getattr(jvm, "java.lang.Object"), are found at once."""
    return sorted(
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute)
        and ast.unparse(node.value).rpartition(".")[2] in ("jvm", "_jvm")
        and (node.attr in ("org", "java", "scala") or node.attr[0].isupper())
    )


def test_classes_are_asked_for_by_their_whole_names() -> None:
    assert asked_in_parts("jvm.long\nc.spark._jvm.org.apache.X()\njvm.PythonUtils.toSeq") == [2, 3]
    for file in sorted((SOURCES / "spark").rglob("*.py")):
        assert asked_in_parts(file.read_text(encoding="utf-8")) == [], file


def test_the_search_finds_what_it_looks_for() -> None:
    assert named("a._jdf.x()\nhasattr(b, '_jsparkSession')") == {("_jdf", 1), ("_jsparkSession", 2)}
    assert named((SOURCES / "spark" / "handles.py").read_text(encoding="utf-8"))


def test_the_jvm_is_spoken_to_in_the_room_spark_alone() -> None:
    rest: dict[str, list[tuple[str, int]]] = {}
    for file in sorted(SOURCES.rglob("*.py")):
        path = file.relative_to(SOURCES)
        if path.parts[0] == "spark":
            continue
        found = named(file.read_text(encoding="utf-8"))
        if str(path) in RDDS:
            assert found, f"{path} needs no exception any more"
            found = {(name, line) for name, line in found if name != "_jrdd"}
        if found:
            rest[str(path)] = sorted(found)
    assert not rest, "these speak to the JVM themselves; make that functions of whence.spark"
