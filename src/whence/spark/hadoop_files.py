"""Files on whatever Spark can reach: s3a, hdfs, abfss, dbfs, gs, ..., by the driver's JVM and with Spark's settings.

Contents go through files of this machine, which the JVM copies: py4j would spell out every byte. On executors Python
has no JVM at hand: there these files become those of the driver's relay.
"""

from __future__ import annotations

import logging
from typing import Any
from uuid import uuid4

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession

from whence.model import StoreError
from whence.model.redact import redact
from whence.store.files import RemoteFiles
from whence.store.private import require_name
from whence.store.relay import Relay

log = logging.getLogger("whence.store")

# A file appears there when it is closed, and to rename one is to copy it.
_WHOLE_BY_NATURE = ("s3", "s3a", "s3n", "gs", "oss", "cosn", "obs")
# Those that keep rights of files as POSIX has them.
_WITH_RIGHTS = ("hdfs", "webhdfs", "swebhdfs", "viewfs", "ofs", "o3fs", "file")
_AZURE = "org.apache.hadoop:hadoop-azure"
_PACKAGES = {"s3a": "org.apache.hadoop:hadoop-aws", "abfss": _AZURE, "abfs": _AZURE}


class HadoopFiles(RemoteFiles):
    def __init__(self, spark: SparkSession, root: str, relay: Relay) -> None:
        super().__init__(root)
        self.spark, self._relay = spark, relay
        self._top = self.root
        self._made: set[str] = set()
        self._relayed: Any = None
        jvm: Any = spark._jvm
        session: Any = spark._jsparkSession
        self._path_class = getattr(jvm, "org.apache.hadoop.fs.Path")
        self.conf = session.sessionState().newHadoopConf()
        self._scheme = self.root.partition("://")[0]
        try:
            self._system = self._path_class(self.root).getFileSystem(self.conf)
        except Py4JError as problem:
            raise self._unreachable(problem) from problem

    def _unreachable(self, problem: Py4JError) -> StoreError:
        said = redact(str(getattr(problem, "java_exception", problem))).splitlines()[0]
        package = _PACKAGES.get(self._scheme)
        hint = (
            f" Spark needs the package for it: spark.jars.packages={package}:<the version of Spark's own Hadoop>, and "
            "its settings under spark.hadoop."
            if package
            else " Its settings stand under spark.hadoop."
        )
        return StoreError(f"The store {redact(self.root)} cannot be reached by this Spark session: {said}.{hint}")

    def __reduce__(self) -> Any:
        """Sent to executors."""
        if self._relayed is None:
            self._relayed = self._relay.mount(self)
        return self._relayed.__reduce__()

    def below(self, *parts: str) -> HadoopFiles:
        made = object.__new__(HadoopFiles)  # the same file system, which is not asked for again
        made.__dict__.update(self.__dict__)
        made.root, made._scratch, made._relayed, made._made = self.path(*parts), None, None, set()
        return made

    def check(self) -> None:
        """Whether the place can be used, at once: one question to the file system."""
        self._said(lambda: self._system.exists(self._at()))

    # --- on the file system

    def _at(self, *parts: str) -> Any:
        return self._path_class("/".join((self.root, *map(require_name, parts))))

    def _said(self, what: Any) -> Any:
        try:
            return what()
        except Py4JJavaError as problem:
            name = str(problem.java_exception.getClass().getSimpleName())
            if name in ("FileNotFoundException", "NoSuchFileException"):
                raise FileNotFoundError(str(problem.java_exception.getMessage())) from problem
            raise self._unreachable(problem) from problem
        except Py4JError as problem:  # Spark's JVM has ended
            raise self._unreachable(problem) from problem

    @property
    def has_rights(self) -> bool:
        return self._scheme in _WITH_RIGHTS

    def make(self, *parts: str) -> None:
        self._said(lambda: self._make(self._at(*parts)))

    def _make(self, directory: Any) -> None:
        """The directory; what is made is for this user alone, where the file system knows such a thing."""
        name = str(directory.toString())
        if name in self._made or not self.has_rights:
            return
        jvm: Any = self.spark._jvm
        missing = []
        place = directory
        while place is not None and not self._system.exists(place):
            missing.append(place)
            place = place.getParent()
        permission = getattr(jvm, "org.apache.hadoop.fs.permission.FsPermission")(self.rights(str(place.toString()))[0])
        for level in reversed(missing):
            self._system.mkdirs(level)
            self._system.setPermission(level, permission)
        self._made.add(name)

    def rights(self, above: str | None = None) -> tuple[str, str]:
        """Of a directory and of a file that are made below: a store that its group may write is the group's."""
        top = self._path_class(self._top)
        name = str(top.toString())  # as Hadoop spells it: file:/x for file:///x
        inside = above is None or above == name or above.startswith(f"{name}/")
        known = inside and self._system.exists(top)
        mode = str(self._system.getFileStatus(top).getPermission().toString()) if known else ""  # as in rwxrwx---
        return ("770", "660") if mode[4:5] == "w" else ("700", "600")

    def put(self, source: str, *parts: str) -> None:
        target = self._at(*parts)
        here = self._path_class(f"file://{source}")

        def copy() -> None:
            jvm: Any = self.spark._jvm
            copied = getattr(jvm, "org.apache.hadoop.fs.FileUtil").copy
            machine = getattr(jvm, "org.apache.hadoop.fs.FileSystem").getLocal(self.conf).getRaw()
            self._make(target.getParent())
            if self._scheme in _WHOLE_BY_NATURE:
                copied(machine, here, self._system, target, False, True, self.conf)
                return
            hidden = self._path_class(target.getParent(), f".{uuid4().hex}.tmp")
            copied(machine, here, self._system, hidden, False, True, self.conf)
            if self.has_rights:
                permission = getattr(jvm, "org.apache.hadoop.fs.permission.FsPermission")
                self._system.setPermission(hidden, permission(self.rights()[1]))
            self._replace(hidden, target)

        self._said(copy)
        self.forget(*parts)

    def _replace(self, hidden: Any, target: Any) -> None:
        jvm: Any = self.spark._jvm
        gateway: Any = self.spark._sc._gateway
        rename = getattr(jvm, "org.apache.hadoop.fs.Options$Rename")
        options = gateway.new_array(rename, 1)
        options[0] = rename.OVERWRITE
        try:
            context = getattr(jvm, "org.apache.hadoop.fs.FileContext").getFileContext(target.toUri(), self.conf)
            context.rename(hidden, target, options)
        except Py4JJavaError:  # a file system of the older interface only, which does not replace in one step
            self._system.delete(target, False)
            if not self._system.rename(hidden, target):
                raise StoreError(f"{target.toString()} could not be put in its place.") from None

    def fetch(self, target: str, *parts: str) -> None:
        self._said(
            lambda: self._system.copyToLocalFile(False, self._at(*parts), self._path_class(f"file://{target}"), True)
        )

    def _listed(self, path: Any) -> list[Any]:
        try:
            return list(self._said(lambda: self._system.listStatus(path)))
        except FileNotFoundError:
            return []

    def names(self, *parts: str) -> list[str]:
        path = self._at(*parts)
        own = str(path.getName())
        found = [str(status.getPath().getName()) for status in self._listed(path)]
        return [] if found == [own] and self.size(*parts) is not None else sorted(found)

    def size(self, *parts: str) -> int | None:
        try:
            status = self._said(lambda: self._system.getFileStatus(self._at(*parts)))
        except FileNotFoundError:
            return None
        return None if status.isDirectory() else int(status.getLen())

    def changed(self, *parts: str) -> int:
        try:
            return int(self._said(lambda: self._system.getFileStatus(self._at(*parts)).getModificationTime()))
        except FileNotFoundError:
            return 0

    def delete(self, *parts: str) -> None:
        self._said(lambda: self._system.delete(self._at(*parts), False))
        self.forget(*parts)

    def delete_tree(self, *parts: str) -> None:
        self._said(lambda: self._system.delete(self._at(*parts), True))
        self._made.clear()
