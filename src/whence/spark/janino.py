"""Java classes of whence's own, compiled by Janino, which is part of Spark: there is no jar to build or to ship.

Janino knows no generics: sources use raw types. What was compiled is kept for the next session of this user."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import threading
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from whence.spark.release import release_of
from whence.store.private import is_own

_loading = threading.Lock()


def loader_of(spark: SparkSession, stem: str, source: str) -> Any:
    """A class loader with the classes of this source, which executors of this application have too."""
    gateway: Any = spark._sc._gateway
    context: Any = spark._jsc.sc()
    # The gateway lives as long as its JVM, which must see the classes only once; each context needs the jar.
    known: dict[str, tuple[str, set[str]]] = vars(gateway).setdefault("_whence_jars", {})
    if stem not in known:
        known[stem] = jar_of(spark, stem, source), set()
    jar, contexts = known[stem]
    if context.applicationId() not in contexts:
        spark._jsparkSession.sessionState().resourceLoader().addJar(jar)
        contexts.add(context.applicationId())
    return spark._jsparkSession.sharedState().jarClassLoader()


def driver_loader(spark: SparkSession, stem: str, source: str) -> Any:
    """The same for the driver alone."""
    gateway: Any = spark._sc._gateway
    jvm: Any = spark._jvm
    # py4j remembers methods by the name of their class, so one JVM must see the class only once, also if threads
    # attach at the same moment: the gateway, which lives as long as its JVM, keeps the loader.
    with _loading:
        loaders: dict[str, Any] = vars(gateway).setdefault("_whence_loaders", {})
        if stem not in loaders:
            outer = getattr(jvm, "java.lang.Thread").currentThread().getContextClassLoader()
            urls = gateway.new_array(getattr(jvm, "java.net.URL"), 1)
            urls[0] = getattr(jvm, "java.io.File")(jar_of(spark, stem, source)).toURI().toURL()
            loaders[stem] = getattr(jvm, "java.net.URLClassLoader")(urls, outer)
        return loaders[stem]


def object_of(spark: SparkSession, name: str, *given: Any, beside: Sequence[str] = ()) -> Any:
    """A new object of the class of this name, whose source stands beside this file under the same name; for the driver
    alone. `beside`: the classes that are compiled together with it."""
    sources = [Path(__file__).with_name(f"{each}.java").read_text(encoding="utf-8") for each in (name, *beside)]
    return made(spark, driver_loader(spark, name.lower(), together(sources)), f"whence.{name}", *given)


def together(sources: Sequence[str]) -> str:
    """Several sources of one package as one, which Janino's simple compiler takes."""
    if len(sources) == 1:
        return sources[0]
    lines = [line for source in sources for line in source.splitlines()]
    heads = dict.fromkeys(line for line in lines if line.startswith(("package ", "import ")))
    return "\n".join([*heads, *(line for line in lines if line not in heads)])


def made(spark: SparkSession, loader: Any, name: str, *given: Any) -> Any:
    """An object of a class of this loader, by its only constructor."""
    gateway: Any = spark._sc._gateway
    jvm: Any = spark._jvm
    (constructor, *_) = loader.loadClass(name).getConstructors()
    arguments = gateway.new_array(getattr(jvm, "java.lang.Object"), len(given))
    for number, value in enumerate(given):
        arguments[number] = value
    return constructor.newInstance(arguments)


def gathered(spark: SparkSession, name: str) -> Any:
    """An accumulator in which objects of such classes put what they tell the driver."""
    context: Any = spark._jsc.sc()
    return context.collectionAccumulator(name)


def jar_of(spark: SparkSession, stem: str, source: str) -> str:
    """The path of a jar with the classes of this source, compiled once for each version of Spark and Java."""
    jvm: Any = spark._jvm
    source = release_of(spark).java(source)
    java = getattr(jvm, "java.lang.System").getProperty("java.specification.version")
    key = hashlib.sha256(f"{source}\0{spark.version}\0{java}".encode()).hexdigest()[:24]
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    target = Path(base) / "whence" / f"{stem}-{key}.jar"
    if target.is_file() and is_own(target.parent, target):  # it is run as this user
        return str(target)
    compiler = getattr(jvm, "org.codehaus.janino.SimpleCompiler")()
    compiler.setParentClassLoader(getattr(jvm, "java.lang.Thread").currentThread().getContextClassLoader())
    compiler.cook(source)
    codes = compiler.getBytecodes()
    try:
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not is_own(target.parent):
            raise PermissionError(f"others can write {target.parent}")
        handle, fresh = tempfile.mkstemp(dir=target.parent)
    except OSError:  # without a place to keep it, it is compiled again next time
        handle, fresh = tempfile.mkstemp(suffix=".jar")
        target = Path(fresh)
    with contextlib.closing(os.fdopen(handle, "wb")) as file, zipfile.ZipFile(file, "w") as archive:
        for name in list(codes.keySet()):
            archive.writestr(name.replace(".", "/") + ".class", bytes(codes[name]))
    if fresh != str(target):
        os.replace(fresh, target)
    return str(target)
