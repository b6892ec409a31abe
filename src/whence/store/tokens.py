"""Tokens and cookies, kept as hashes."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

import sqlalchemy as sa

from whence.model import StoreError
from whence.store.changes import bump
from whence.store.rows import moment
from whence.store.schema import cookies, tokens

Read = Callable[[sa.Select[Any]], list[Any]]
Write = Callable[[Callable[[sa.Connection], object]], None]
PREFIX = "whence_"
COOKIE_HOURS = 12


@dataclass(frozen=True)
class Token:
    name: str
    role: str
    created: datetime | None
    expires: datetime | None
    revoked: datetime | None


@dataclass(frozen=True)
class Bearer:
    """Whom a token or a cookie stands for."""

    name: str
    role: str
    token: str | None


class Tokens:
    def __init__(self, read: Read, write: Write) -> None:
        self._read = read
        self._write = write

    def create(self, name: str, role: str, lasting: timedelta | None = None) -> tuple[Token, str]:
        """A new token; the text is given here and never again."""
        if not name or name in ("*", "local") or name.startswith("role:"):
            raise StoreError(f"A token cannot be named {name!r}: policies give that name another meaning.")
        now = datetime.now(timezone.utc)
        text = PREFIX + secrets.token_urlsafe(32)
        expires = None if lasting is None else now + lasting

        def work(connection: sa.Connection) -> None:
            bump(connection)
            if connection.execute(_valid(now).where(tokens.c.name == name)).first():
                raise StoreError(f"There is a token {name!r} already. Revoke it first, or take another name.")
            row = {"hash": hashed(text), "name": name, "role": role, "created": now.timestamp()}
            connection.execute(tokens.insert().values(**row, expires=expires and expires.timestamp()))

        self._write(work)
        return Token(name, role, now, expires, None), text

    def revoke(self, name: str) -> None:
        now = datetime.now(timezone.utc).timestamp()

        def work(connection: sa.Connection) -> None:
            bump(connection)
            here = (tokens.c.name == name, tokens.c.revoked.is_(None))
            found = connection.execute(tokens.update().where(*here).values(revoked=now))
            if not found.rowcount:
                raise StoreError(f"There is no token {name!r} to revoke. `whence token list` names those there are.")
            connection.execute(cookies.delete().where(cookies.c.caller == name, cookies.c.token.is_not(None)))

        self._write(work)

    def list(self) -> tuple[Token, ...]:
        rows = self._read(sa.select(tokens).order_by(tokens.c.name, tokens.c.created))
        return tuple(Token(r.name, r.role, moment(r.created), moment(r.expires), moment(r.revoked)) for r in rows)

    def bearer(self, text: str) -> Bearer | None:
        """Whose token this is, if it is valid now."""
        wanted = hashed(text)
        for row in self._read(_valid(datetime.now(timezone.utc)).where(tokens.c.hash == wanted)):
            if hmac.compare_digest(row.hash, wanted):
                return Bearer(row.name, row.role, row.hash)
        return None

    def make_cookie(self, bearer: Bearer, expires: datetime | None) -> str:
        """A cookie that is worth as much as the token, for some hours, and no longer than the token."""
        text = secrets.token_urlsafe(32)
        now = datetime.now(timezone.utc)
        until = now + timedelta(hours=COOKIE_HOURS)
        until = until if expires is None else min(until, expires)
        row = {"hash": hashed(text), "token": bearer.token, "caller": bearer.name, "role": bearer.role}

        def work(connection: sa.Connection) -> None:
            connection.execute(cookies.delete().where(cookies.c.expires < now.timestamp()))
            connection.execute(cookies.insert().values(**row, expires=until.timestamp()))

        self._write(work)
        return text

    def cookie(self, text: str) -> Bearer | None:
        wanted, now = hashed(text), datetime.now(timezone.utc)
        query = sa.select(cookies).where(cookies.c.hash == wanted, cookies.c.expires > now.timestamp())
        for row in self._read(query):
            if not hmac.compare_digest(row.hash, wanted):
                continue
            if row.token is None:
                return Bearer(row.caller, row.role, None)
            if self._read(_valid(now).where(tokens.c.hash == row.token)):
                return Bearer(row.caller, row.role, row.token)
        return None

    def end_cookie(self, text: str) -> None:
        self._write(lambda c: c.execute(cookies.delete().where(cookies.c.hash == hashed(text))))

    def expiry(self, bearer: Bearer) -> datetime | None:
        rows = self._read(sa.select(tokens.c.expires).where(tokens.c.hash == bearer.token))
        return moment(rows[0].expires) if rows else None


def _valid(now: datetime) -> sa.Select[Any]:
    alive = tokens.c.expires.is_(None) | (tokens.c.expires > now.timestamp())
    return sa.select(tokens).where(tokens.c.revoked.is_(None), alive)


def hashed(text: str) -> str:
    """Tokens are 256 random bits: a plain hash cannot be turned back."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
