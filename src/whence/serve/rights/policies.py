"""Policies: who may see which datasets, and who may read rows of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import translate
from typing import Any

from whence.model import WhenceError
from whence.serve.rights.callers import ADMIN, ROLES, Caller

SEE, ROWS = "see", "rows"
ALLOW, DENY = "allow", "deny"


class BadAccess(WhenceError):
    """The access file says something that cannot be meant."""


@dataclass(frozen=True)
class Pattern:
    namespace: re.Pattern[str] | None
    name: re.Pattern[str] | None

    def matches(self, namespace: str, name: str) -> bool:
        return (self.namespace is None or self.namespace.match(namespace) is not None) and (
            self.name is None or self.name.match(name) is not None
        )


@dataclass(frozen=True)
class Policy:
    who: frozenset[str]
    datasets: tuple[Pattern, ...]
    effect: str
    rights: frozenset[str]

    def is_about(self, caller: Caller) -> bool:
        return not self.who.isdisjoint(("*", caller.name, f"role:{caller.role}"))


@dataclass(frozen=True)
class Policies:
    policies: tuple[Policy, ...] = ()

    def sees_all(self, caller: Caller) -> bool:
        return caller.is_local or caller.role == ADMIN or not self.policies

    def sees(self, caller: Caller, namespace: str, name: str) -> bool:
        return self.sees_all(caller) or self._allowed(caller, SEE, namespace, name)

    def reads_rows(self, caller: Caller, namespace: str, name: str) -> bool:
        if caller.is_local:
            return True
        return self._allowed(caller, ROWS, namespace, name) and self.sees(caller, namespace, name)

    def _allowed(self, caller: Caller, right: str, namespace: str, name: str) -> bool:
        allowed = False
        for policy in self.policies:
            if right not in policy.rights or not policy.is_about(caller):
                continue
            if any(pattern.matches(namespace, name) for pattern in policy.datasets):
                if policy.effect == DENY:
                    return False
                allowed = True
        return allowed


@dataclass
class Sight:
    """What one caller sees, remembered name by name."""

    policies: Policies
    caller: Caller
    known: dict[tuple[str, str], bool] = field(default_factory=dict)

    @property
    def everything(self) -> bool:
        return self.policies.sees_all(self.caller)

    def sees(self, namespace: str, name: str) -> bool:
        if self.everything:
            return True
        key = (namespace, name)
        if key not in self.known:
            if len(self.known) > 500_000:
                self.known.clear()
            self.known[key] = self.policies.sees(self.caller, namespace, name)
        return self.known[key]


def parse_policies(given: Any) -> Policies:
    if given is None:
        return Policies()
    if not isinstance(given, list):
        raise BadAccess("policies: must be a list.")
    return Policies(tuple(_policy(number, one) for number, one in enumerate(given, 1)))


def _policy(number: int, given: Any) -> Policy:
    here = f"policy {number}"
    if not isinstance(given, Mapping):
        raise BadAccess(f"{here} must have who, datasets, effect and rights.")
    unknown = set(given) - {"who", "datasets", "effect", "rights"}
    if unknown:
        raise BadAccess(f"{here} has {sorted(map(str, unknown))[0]!r}, which is none of who, datasets, effect, rights.")
    who = _texts(f"{here}: who", given.get("who"))
    for one in who:
        if one.startswith("role:") and one[5:] not in ROLES:
            raise BadAccess(f"{here}: {one!r} is no role; roles are {', '.join(ROLES)}.")
    effect = given.get("effect")
    if effect not in (ALLOW, DENY):
        raise BadAccess(f"{here}: effect must be allow or deny.")
    rights = _texts(f"{here}: rights", given.get("rights", [SEE]))
    for one in rights:
        if one not in (SEE, ROWS):
            raise BadAccess(f"{here}: {one!r} is no right; rights are see and rows.")
    datasets = given.get("datasets")
    if not isinstance(datasets, list) or not datasets:
        raise BadAccess(f"{here}: datasets must be a list of patterns.")
    return Policy(frozenset(who), tuple(_pattern(here, one) for one in datasets), effect, frozenset(rights))


def _texts(where: str, given: Any) -> list[str]:
    if not isinstance(given, list) or not given or not all(isinstance(one, str) for one in given):
        raise BadAccess(f"{where} must be a list of texts.")
    return list(given)


def _pattern(here: str, given: Any) -> Pattern:
    if isinstance(given, str):
        return Pattern(None, re.compile(translate(given)))
    is_pair = isinstance(given, Mapping) and given and set(given) <= {"namespace", "name"}
    if is_pair and all(isinstance(one, str) for one in given.values()):
        made = {key: re.compile(translate(one)) for key, one in given.items()}
        return Pattern(made.get("namespace"), made.get("name"))
    raise BadAccess(f"{here}: a dataset is a glob, or {{namespace: glob, name: glob}}; got {given!r}.")
