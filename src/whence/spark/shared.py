"""The classes of a JVM, and its objects that never change: looked up once, whoever needs them."""

from __future__ import annotations

from threading import Lock
from typing import Any

from py4j.java_gateway import JavaObject

# What Spark notes at a column of which DataFrame it is.
OF_FRAMES = ("__dataset_id", "__col_position")
# Where a connection to a JVM keeps what all its sessions share.
_SHARED = "whence_shared"

_sharing = Lock()


class Classes:
    """The classes of a Java package, each looked up once: py4j asks the JVM again each time."""

    def __init__(self, jvm: Any, package: str) -> None:
        self._jvm = jvm
        self._package = package

    def __getattr__(self, name: str) -> Any:
        # By the whole name: of one that is asked for part by part, py4j looks for each part in every jar.
        found = getattr(self._jvm, f"{self._package}.{name}")
        setattr(self, name, found)
        return found

    def the(self, name: str) -> JavaObject:
        """A Scala object."""
        key = name + "_object"
        if key not in self.__dict__:
            setattr(self, key, getattr(getattr(self, name + "$"), "MODULE$"))
        return self.__dict__[key]


class Shared:
    """What is the same for all sessions of a JVM: classes, and objects that never change."""

    def __init__(self, jvm: Any) -> None:
        self.plans: Any = Classes(jvm, "org.apache.spark.sql.catalyst.plans.logical")
        self.exprs: Any = Classes(jvm, "org.apache.spark.sql.catalyst.expressions")
        self.join_types: Any = Classes(jvm, "org.apache.spark.sql.catalyst.plans")
        self.analysis: Any = Classes(jvm, "org.apache.spark.sql.catalyst.analysis")
        self.optimizer: Any = Classes(jvm, "org.apache.spark.sql.catalyst.optimizer")
        self.patterns: Any = Classes(jvm, "org.apache.spark.sql.catalyst.trees").TreePattern
        self.to_seq: Any = getattr(jvm, "org.apache.spark.api.python.PythonUtils").toSeq
        self.list_of: Any = getattr(jvm, "java.util.List").of
        self.object: Any = getattr(jvm, "java.lang.Object")
        self.system: Any = getattr(jvm, "java.lang.System")
        self.thread: Any = getattr(jvm, "java.lang.Thread")
        self.uri: Any = getattr(jvm, "java.net.URI")
        self.path: Any = getattr(jvm, "org.apache.hadoop.fs.Path")
        self.some: Any = getattr(jvm, "scala.Some")
        self.none: JavaObject = getattr(jvm, "scala.Option").empty()
        self.empty: JavaObject = self.to_seq([])
        self.of_frames: JavaObject = self.to_seq(list(OF_FRAMES))
        self.no_hint: JavaObject = self.plans.JoinHint.NONE()
        self.true: JavaObject = self.exprs.Literal.TrueLiteral()
        self.with_functions: list[JavaObject] = [self.patterns.PYTHON_UDF(), self.patterns.SCALA_UDF()]
        self.with_subquery: JavaObject = self.patterns.PLAN_EXPRESSION()
        self.new_id: Any = self.exprs.NamedExpression.newExprId
        self.tag: Any = Classes(jvm, "org.apache.spark.sql.catalyst.trees").TreeNodeTag("whence_operator")
        self.lost_order: Any = Classes(jvm, "org.apache.spark.sql.catalyst.trees").TreeNodeTag("whence_lost_order")
        self.jvm: str = str(self.new_id().jvmId().toString())


def shared(jvm: Any) -> Shared:
    """Looked up once for each JVM, since that is most of what a new session would say to it."""
    client: Any = jvm._gateway_client
    with _sharing:
        if not hasattr(client, _SHARED):
            setattr(client, _SHARED, Shared(jvm))
        found: Shared = getattr(client, _SHARED)
        return found
