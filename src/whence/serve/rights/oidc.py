"""OIDC: JWTs that the configured issuer signed."""

from __future__ import annotations

import json
import logging
import threading
import time
import urllib.request
from typing import Any

import jwt

from whence.serve.rights.access import OidcSettings, require_safe
from whence.serve.rights.callers import ROLES, Caller
from whence.serve.rights.policies import BadAccess

log = logging.getLogger("whence.serve")
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Signed with a key of the issuer's alone; never one that both sides share."""
_KEEP_SECONDS = 600.0
_RETRY_SECONDS = 5.0
_TIMEOUT = 5.0
_MOST = 1_000_000


class Oidc:
    def __init__(self, settings: OidcSettings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._keys: dict[str | None, Any] = {}
        self._read_at = float("-inf")

    def caller(self, text: str) -> Caller | None:
        """Who this token says it is, if the issuer signed it for this audience and it is valid now."""
        try:
            head = jwt.get_unverified_header(text)
            if head.get("alg") not in ALGORITHMS:
                return None
            key = self._key(head.get("kid"))
            if key is None:
                return None
            claims = jwt.decode(
                text,
                key,
                algorithms=list(ALGORITHMS),
                audience=self._settings.audience,
                issuer=self._settings.issuer,
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
        except jwt.PyJWTError:
            return None
        subject = claims["sub"]
        # policies give these names another meaning
        if not isinstance(subject, str) or not subject or subject in ("*", "local") or subject.startswith("role:"):
            return None
        return Caller(subject, _role(claims.get(self._settings.role_claim)))

    def expiry(self, text: str) -> float:
        """When a token that was found valid ends."""
        return float(jwt.decode(text, options={"verify_signature": False})["exp"])

    def _key(self, kid: str | None) -> Any:
        with self._lock:
            now = time.monotonic()
            known = kid in self._keys
            if now - self._read_at > (_KEEP_SECONDS if known else _RETRY_SECONDS):
                self._read_at = now
                try:
                    self._keys = self._fetch()
                except (OSError, ValueError, KeyError, BadAccess, jwt.PyJWTError) as error:
                    log.warning("the keys of the OIDC issuer cannot be read: %s", error)
            if kid is None and len(self._keys) == 1:
                return next(iter(self._keys.values()))
            return self._keys.get(kid)

    def _fetch(self) -> dict[str | None, Any]:
        issuer = self._settings.issuer
        about = _get(f"{issuer.rstrip('/')}/.well-known/openid-configuration")
        if about["issuer"] != issuer:
            raise ValueError(f"{issuer} says that it is {about['issuer']!r}")
        require_safe(about["jwks_uri"])
        found: dict[str | None, Any] = {}
        for given in _get(about["jwks_uri"])["keys"]:
            if given.get("use", "sig") != "sig" or given.get("kty") not in ("RSA", "EC", "OKP"):
                continue
            found[given.get("kid")] = jwt.PyJWK(given).key
        return found


class _Straight(urllib.request.HTTPRedirectHandler):
    """Keys come from where the settings say, and from nowhere else."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


def _get(url: str) -> Any:
    with urllib.request.build_opener(_Straight).open(url, timeout=_TIMEOUT) as answer:
        held = answer.read(_MOST + 1)
    if len(held) > _MOST:
        raise ValueError(f"{url} is too large")
    return json.loads(held)


def _role(claim: Any) -> str:
    """The claim may hold one role or many; without any that is known the caller may do nothing."""
    held = claim if isinstance(claim, list) else [claim]
    known = [role for role in ROLES if role in held]
    return known[-1] if known else ""
