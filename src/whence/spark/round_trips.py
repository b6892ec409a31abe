"""Many nodes of a plan in one round trip to the JVM: the driver's half of Handles.java.

Every call through py4j is a round trip, and a sequence costs one for each element, one more for the class of each, and
two for its id. A question looks at a plan a thousand times."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from whence.spark.janino import object_of

# Where a connection to a JVM keeps the Handles of that JVM, and what is known of a node with its handle.
_HANDLES = "whence_handles"
_CLASS, ID, _TYPE, _MARKS = "whence_class", "whence_exprid", "whence_type", "whence_marks"
_CHILDREN, _FILES = "whence_children", "whence_files_read"
SUBQUERIES, FUNCTIONS, UNCERTAIN = "s", "f", "n"

_making = threading.Lock()


def prepare(spark: SparkSession) -> None:
    """Makes the Handles of the session's JVM, once. Where that is not allowed, every look is a call of its own."""
    gateway: Any = spark._sc._gateway
    client: Any = gateway._gateway_client
    with _making:
        if hasattr(client, _HANDLES):
            return
        try:
            setattr(client, _HANDLES, object_of(spark, "Handles", gateway.java_gateway_server))
        except Py4JError:
            setattr(client, _HANDLES, None)


def handles_for(handle: JavaObject) -> Any | None:
    """The Handles of the JVM that this is a handle of."""
    return getattr(handle._gateway_client, _HANDLES, None)


def nodes(client: Any, told: str) -> list[JavaObject]:
    """Handles of what Handles.java tells of a sequence, with what it says of each."""
    return [_node(client, line) for line in told.split("\n")] if told else []


def _node(client: Any, line: str) -> JavaObject:
    number, kind, name, kind_of_value, text, marks = line.split("\t")
    node = JavaObject(number, client)
    node.__dict__[_CLASS] = kind.rstrip("$")
    if name:
        node.__dict__[ID] = name
    if kind_of_value:
        node.__dict__[_TYPE] = kind_of_value
    if marks:
        node.__dict__[_MARKS] = marks
    if text:  # in the place of the method that would ask for it
        node.__dict__["name"] = partial(str, text[1:-1])
    return node


class Known:
    """What is known of something that several nodes have in common."""


def of_files(scan: JavaObject) -> JavaObject | Known:
    """Who knows what holds for every node that reads the same files in the same way, whatever its columns' ids."""
    found: Known | None = scan.__dict__.get(_FILES)
    return scan if found is None else found


def open_tree(plan: JavaObject) -> None:
    """Fetches all that stands below a plan. What stands there twice has one handle, so that it is asked about once; so
    are files that are read at several places (`of_files`)."""
    handles = handles_for(plan)
    if handles is None or _CHILDREN in plan.__dict__:
        return
    found: list[JavaObject] = []
    read: dict[str, Known] = {}
    for line in str(handles.tree(plan)).split("\n"):
        below, files, told = line.split("\t", 2)
        node = _node(plan._gateway_client, told)
        if files:
            node.__dict__[_FILES] = read.setdefault(files, Known())
        node.__dict__[_CHILDREN] = [found[int(number)] for number in below.split()]
        found.append(node)
    root = found[-1]
    for name in (_CLASS, _MARKS, _CHILDREN, _FILES):
        if name in root.__dict__:
            plan.__dict__[name] = root.__dict__[name]


def is_marked(plan: JavaObject, mark: str) -> bool | None:
    """Whether a plan, or one below it, holds what the mark stands for; None where that was not told with its handle."""
    marks: str | None = plan.__dict__.get(_MARKS)
    return None if marks is None else mark in marks
