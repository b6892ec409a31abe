"""The access file: policies and OIDC."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from whence.serve.rights.policies import BadAccess, Policies, parse_policies


@dataclass(frozen=True)
class OidcSettings:
    issuer: str
    audience: str
    role_claim: str


@dataclass(frozen=True)
class Access:
    policies: Policies = field(default_factory=Policies)
    oidc: OidcSettings | None = None


def read_access(path: Path) -> Access:
    try:
        given = yaml.safe_load(path.read_text())
    except OSError as error:
        raise BadAccess(f"The access file {path} cannot be read: {error.strerror}.") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadAccess(f"The access file {path} is not YAML: {str(error).splitlines()[0]}.") from error
    try:
        return parse_access(given)
    except BadAccess as error:
        raise BadAccess(f"The access file {path}: {error}") from error


def parse_access(given: Any) -> Access:
    if given is None:
        return Access()
    if not isinstance(given, Mapping):
        raise BadAccess("it must have policies: and oidc:.")
    unknown = set(given) - {"policies", "oidc"}
    if unknown:
        raise BadAccess(f"{sorted(map(str, unknown))[0]!r} is neither policies nor oidc.")
    return Access(parse_policies(given.get("policies")), _oidc(given.get("oidc")))


def _oidc(given: Any) -> OidcSettings | None:
    if given is None:
        return None
    wanted = {"issuer", "audience", "role_claim"}
    if not isinstance(given, Mapping) or set(given) != wanted or not all(isinstance(v, str) for v in given.values()):
        raise BadAccess("oidc must have issuer, audience and role_claim, each a text.")
    require_safe(given["issuer"])
    return OidcSettings(given["issuer"], given["audience"], given["role_claim"])


def require_safe(url: str) -> None:
    """Keys come over https; http will do where the issuer is on this machine."""
    parts = urlsplit(url)
    if parts.scheme == "https" and parts.hostname:
        return
    if parts.scheme == "http" and is_loopback(parts.hostname or ""):
        return
    raise BadAccess(f"oidc: {url!r} must be https (http only for an issuer on this machine).")


def is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
