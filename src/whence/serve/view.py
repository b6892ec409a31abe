"""The catalogue as one caller sees it. All that is answered, over HTTP or on the command line, goes through here."""

from __future__ import annotations

import hashlib
import threading
from base64 import urlsafe_b64encode
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, TypeVar

from whence.serve.problems import Problem, not_found
from whence.serve.rights.callers import LOCAL, Caller
from whence.serve.rights.policies import Policies, Sight
from whence.store import Store
from whence.store.catalog import Catalog
from whence.store.copy import Copy, Known, Snapshot
from whence.store.finding import meant
from whence.store.texts import DatasetTexts, RunTexts

Json = dict[str, Any]
_MOST_CALLERS = 256
_Told = TypeVar("_Told")


class Service:
    """One store with who may see what of it, and what is kept in memory of it."""

    def __init__(self, store: Store, policies: Policies | None = None) -> None:
        self.store = store
        self.catalog: Catalog = store.catalog
        self.policies = policies or Policies()
        self.copy = Copy(self.catalog.reading)
        self.runs = RunTexts(self.catalog.reading)
        self.secret = self.catalog.secret()
        self._texts: DatasetTexts | None = None
        self._sights: OrderedDict[Caller, Sight] = OrderedDict()
        self.ids: Mapping[int, str] = Remembered(lambda number: self.opaque("dataset", str(number)))
        self._nodes: tuple[Snapshot, Remembered[bytes]] | None = None
        self._lock = threading.Lock()

    def view(self, caller: Caller = LOCAL) -> View:
        return View(self, caller, self.copy.snapshot())

    def warm(self) -> None:
        """Read what is kept in memory before anybody asks."""
        self.copy.snapshot()
        next(self.runs.matching([b"\xff"], None), None)

    def sight(self, caller: Caller) -> Sight:
        with self._lock:
            found = self._sights.pop(caller, None) or Sight(self.policies, caller)
            self._sights[caller] = found
            if len(self._sights) > _MOST_CALLERS:
                self._sights.popitem(last=False)
            return found

    def texts(self, snapshot: Snapshot) -> DatasetTexts:
        held = self._texts
        if held is None or held.names != (snapshot.counted.epoch, snapshot.names):
            self._texts = held = DatasetTexts(snapshot)
        return held

    def opaque(self, *parts: str) -> str:
        digest = hashlib.blake2b("\x00".join(parts).encode("utf-8", "replace"), key=self.secret, digest_size=12)
        return urlsafe_b64encode(digest.digest()).decode()

    def dataset_id(self, number: int) -> str:
        return self.ids[number]

    def node_texts(self, snapshot: Snapshot, make: Callable[[int], bytes]) -> Mapping[int, bytes]:
        """What is told of each dataset to those who see everything; kept as long as nothing changes."""
        held = self._nodes
        if held is None or held[0] is not snapshot:
            self._nodes = held = snapshot, Remembered(make)
        return held[1]


class Remembered(dict[int, _Told]):
    """Made when it is first asked for."""

    def __init__(self, make: Callable[[int], _Told]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, number: int) -> _Told:
        self[number] = told = self._make(number)
        return told


class View:
    def __init__(self, service: Service, caller: Caller, snapshot: Snapshot) -> None:
        self.service = service
        self.catalog = service.catalog
        self.caller = caller
        self.snapshot = snapshot
        self.sight = service.sight(caller)
        self.sees_all = self.sight.everything

    # --- datasets

    def sees(self, number: int) -> bool:
        known = self.snapshot.datasets.get(number)
        return known is not None and (self.sees_all or self.sight.sees(known.namespace, known.name))

    def reads_rows(self, namespace: str, name: str) -> bool:
        return self.service.policies.reads_rows(self.caller, namespace, name)

    def id_of(self, number: int) -> str:
        return self.service.dataset_id(number) if self.sees(number) else self.masked_id(str(number))

    def ids_of(self, numbers: Iterable[int]) -> Mapping[int, str]:
        return self.service.ids if self.sees_all else {number: self.id_of(number) for number in numbers}

    def masked_id(self, what: str) -> str:
        return self.service.opaque("masked", self.caller.name, what)

    def ref(self, number: int) -> Json:
        """A dataset as others point to it."""
        if not self.sees(number):
            return {"id": self.masked_id(str(number)), "masked": True}
        known = self.snapshot.datasets[number]
        return {
            "id": self.service.dataset_id(number),
            "namespace": known.namespace,
            "name": known.name,
            "kind": known.kind,
        }

    def named_ref(self, namespace: str, name: str, kind: str) -> Json:
        """The same for a dataset that the catalogue may not know."""
        with self.catalog.reading() as connection:
            found = meant(connection, namespace, name, None)
        for number in found:
            if number in self.snapshot.datasets:
                return self.ref(number)
        if self.sight.sees(namespace, name):
            return {"id": self.service.opaque("named", namespace, name), "namespace": namespace, "name": name,
                    "kind": kind}  # fmt: skip
        return {"id": self.masked_id(f"{namespace}\x00{name}"), "masked": True}

    def refs(self, numbers: Iterable[int]) -> list[Json]:
        """Visible ones by name, then the masked ones by an id that tells nothing."""
        return [self.ref(number) for number in sorted(set(numbers), key=self.order)]

    def order(self, number: int) -> tuple[bool, int, str]:
        if self.sees(number):
            return False, int(self.snapshot.rank[number]), ""
        return True, 0, self.masked_id(str(number))

    def known(self, number: int) -> Known:
        return self.snapshot.datasets[number]

    def numbers(self, namespace: str | None, name: str, as_of: datetime | None = None) -> dict[int, tuple[str, str]]:
        """The visible datasets that this name may mean."""
        if "\x00" in name or "\x00" in (namespace or ""):
            return {}  # PostgreSQL knows no such text
        when = None if as_of is None else as_of.timestamp()
        with self.catalog.reading() as connection:
            found = meant(connection, namespace, name, when, None if self.sees_all else self.sight.sees)
        return {number: names for number, names in found.items() if self.sees(number)}

    def find(self, namespace: str | None, name: str, as_of: datetime | None = None) -> int:
        found = self.numbers(namespace, name, as_of)
        if len(found) == 1:
            return next(iter(found))
        if not found:
            raise not_found("There is no dataset of this name.")
        candidates = [{"namespace": known[0], "name": known[1]} for known in sorted(found.values())]
        detail = f"{len(found)} datasets go by this name: give the namespace too, one of the candidates."
        raise Problem(409, detail, candidates=candidates)
