"""What differs between releases of Spark in the JVM: one class for each that differs, chosen once, by its version.

Field names of nodes stay between releases while constructors gain arguments, so nodes are read and copied by the names
of their fields (catalyst.py) and constructors are tried with more arguments (construct.py). Here is the rest.
"""

from __future__ import annotations

import re
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from whence.model.errors import ConnectUnsupported, NoSession, UnknownSpark
from whence.spark.sessions import is_stopped

if TYPE_CHECKING:  # whether PySpark is there at all is found out here
    from py4j.java_gateway import JavaObject

KNOWN = ((3, 5), (4, 0), (4, 1), (4, 2), (4, 3))


class Release:
    """Spark 4, on Scala 2.13."""

    sql = "org.apache.spark.sql.classic"

    def __init__(self, jvm: Any) -> None:
        self._jvm = jvm
        self._names: dict[str, list[str]] = {}

    def names_of(self, node: JavaObject) -> list[str]:
        """The names of the fields of a Scala case class, in their order; asked once for each class."""
        kind = str(node.getClass().getName())
        if kind not in self._names:
            self._names[kind] = self._look_up(node)
        return self._names[kind]

    def _look_up(self, node: JavaObject) -> list[str]:
        return [str(node.productElementName(i)) for i in range(node.productArity())]

    def dataset(self) -> Any:
        return getattr(self._jvm, f"{self.sql}.Dataset")

    def expression(self, session: JavaObject, column: JavaObject) -> JavaObject:
        return session.expression(column)

    def appended(self, seq: JavaObject, more: JavaObject) -> JavaObject:
        return seq.appendedAll(more)

    def cached_plan(self, session: JavaObject, relation: JavaObject) -> JavaObject:
        return relation.cacheBuilder().logicalPlan()

    def bytes_of(self, seq: JavaObject) -> bytes:
        """The bytes of a function's command."""
        return bytes(seq.unsafeArray())

    def java(self, source: str) -> str:
        """A Java source of whence's own, which is written for Spark 4, as this release compiles it."""
        return source


class Spark3(Release):
    """Spark 3.5, on Scala 2.12: no names of fields in a Product, and other collections."""

    sql = "org.apache.spark.sql"

    def _look_up(self, node: JavaObject) -> list[str]:
        arity = int(node.productArity())
        if not arity:
            return []
        kind = node.getClass()
        while kind is not None:  # what is mixed into a case class where it is made has a class of its own, below it
            fields = {str(field.getName()) for field in kind.getDeclaredFields()}
            made = [[str(given.getName()) for given in maker.getParameters()] for maker in kind.getConstructors()]
            for names in sorted(made, key=len, reverse=True):
                if len(names) >= arity and fields.issuperset(names[:arity]):
                    return names[:arity]
            kind = kind.getSuperclass()
        raise AttributeError(f"The fields of {node.getClass().getName()} have no names in this release of Spark.")

    def expression(self, session: JavaObject, column: JavaObject) -> JavaObject:
        return column.expr()

    def appended(self, seq: JavaObject, more: JavaObject) -> JavaObject:
        return getattr(more.toList(), "$colon$colon$colon")(seq.toList())

    def cached_plan(self, session: JavaObject, relation: JavaObject) -> JavaObject:
        """The relation has the physical plan only; Spark's list of what is cached has both."""
        manager, builder = session.sharedState().cacheManager(), relation.cacheBuilder()
        field = manager.getClass().getDeclaredField("cachedData")
        field.setAccessible(True)
        every = field.get(manager)
        for one in (every.apply(i) for i in range(every.size())):
            if one.cachedRepresentation().cacheBuilder().equals(builder):
                return one.plan()
        raise LookupError("Spark has dropped this query from its cache meanwhile.")

    def bytes_of(self, seq: JavaObject) -> bytes:
        return bytes(seq.array())

    def java(self, source: str) -> str:
        source = source.replace("org.apache.spark.sql.classic.", "org.apache.spark.sql.")
        if ".productElementName(" not in source:
            return source
        return re.sub(r"(\w+)\.productElementName\((\w+)\)", r"Named.element(\1, \2)", source) + _NAMED


_NAMED = """
final class Named {
    private static final java.util.Map KNOWN = new java.util.concurrent.ConcurrentHashMap();

    static String element(scala.Product node, int at) {
        String[] names = (String[]) KNOWN.get(node.getClass());
        if (names == null) {
            names = look(node.getClass(), node.productArity());
            KNOWN.put(node.getClass(), names);
        }
        return names[at];
    }

    private static String[] look(Class kind, int arity) {
        java.lang.reflect.Constructor[] all = kind.getConstructors();
        String[] best = null;
        int most = -1;
        for (int i = 0; i < all.length; i++) {
            java.lang.reflect.Parameter[] given = all[i].getParameters();
            if (given.length >= arity && given.length > most) {
                String[] names = new String[arity];
                boolean fits = true;
                for (int k = 0; k < arity; k++) {
                    names[k] = given[k].getName();
                    fits = fits && declares(kind, names[k]);
                }
                if (fits) {
                    best = names;
                    most = given.length;
                }
            }
        }
        if (best == null) {
            best = new String[arity];
            for (int k = 0; k < arity; k++) {
                best[k] = "_" + (k + 1);
            }
        }
        return best;
    }

    private static boolean declares(Class kind, String name) {
        try {
            kind.getDeclaredField(name);
            return true;
        } catch (NoSuchFieldException none) {
            return false;
        }
    }
}
"""


def is_connect(spark: Any) -> bool:
    """Whether a session is one of Spark Connect. Raises NoSession for what is no session at all."""
    if hasattr(spark, "_jsparkSession"):
        return False
    if type(spark).__module__.startswith("pyspark.sql.connect."):
        return True
    if find_spec("pyspark") is None:
        raise NoSession(
            "whence.attach takes a Spark session, and PySpark is not installed here: pip install 'whence[spark]', or "
            "run this where your platform has its own PySpark."
        )
    raise NoSession(
        f"whence.attach takes a Spark session, not {type(spark).__name__}: whence.attach(spark), with "
        "spark = SparkSession.builder.getOrCreate()."
    )


def require_classic(spark: Any) -> None:
    if is_connect(spark):
        raise ConnectUnsupported("This", "whence reads query plans from the JVM")
    if is_stopped(spark):
        raise NoSession("This Spark session was stopped. Start another and attach to that: whence.attach(spark).")
    require_known(str(spark.version))


def release_of(spark: Any) -> Release:
    """Raises UnknownSpark for a release that whence does not know."""
    return (Release if require_known(str(spark.version)) >= (4, 0) else Spark3)(spark._jvm)


def require_known(version: str) -> tuple[int, int]:
    """Also of builds that vendors made, such as 3.5.4-amzn-0."""
    found = re.match(r"(\d+)\.(\d+)", version)
    release = (int(found[1]), int(found[2])) if found else (0, 0)
    if release not in KNOWN:
        raise UnknownSpark(version, [f"{major}.{minor}" for major, minor in KNOWN], newer=release > KNOWN[-1])
    return release
