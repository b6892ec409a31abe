"""Signs what the store keeps as code, and tells before a byte of it is deserialised whether this user wrote it.

Whoever can write a store must not thereby run code as whoever reads it. What is plain data needs no signature. What
must be code (a plan with a UDF's closure, a restart function) is signed with a key that is not in the store:

    WHENCE_KEY                     for a store that several users or machines share
    $XDG_CONFIG_HOME/whence/key    this user's own (0600), made at the first need; without the variable, under ~/.config

Either may hold several keys, apart by commas, blanks or lines: the first signs, all are accepted. So a key is changed
by putting the new one in front and taking the old one away later.

A signature is bound to a purpose, which says what the content is and where it belongs (kind, path, ...):
`seal.sign(("plan", path), content)`. So no signed content can be put in the place of another. The driver signs.
Executors have no key, and a Seal that is pickled takes none along: where files are written there, the driver signs
their digests.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import stat
from collections.abc import Sequence
from pathlib import Path

from whence.model import StoreError

KEY_VARIABLE = "WHENCE_KEY"
SHORTEST = 32

Purpose = tuple[str, ...]

_HEADER = b"whence sealed 1\n"
_SIGNATURE = re.compile(r"1:([0-9a-f]{16}):([0-9a-f]{64})")

NOT_SIGNED = "it is not signed"
FOREIGN = "it was signed with another key than this user's"
ALTERED = "it was changed after it was signed, or was signed for another place"


class Unsigned(StoreError):
    """Content of the store that this user's keys did not sign for this purpose. `why` is the end of a sentence."""

    def __init__(self, purpose: Purpose, why: str) -> None:
        self.purpose = purpose
        self.why = why
        super().__init__(
            f"The {' '.join(repr(p) if n else p for n, p in enumerate(purpose))} in the store is not read: {why}, and "
            "it could run code of whoever wrote it. Where several users or machines share a store, give them all the "
            f"same {KEY_VARIABLE}; otherwise capture it again."
        )


class Seal:
    """The keys of this user, found or made at the first need; `keys` gives them instead."""

    def __init__(self, keys: Sequence[str] | None = None) -> None:
        self._keys: tuple[bytes, ...] | None = None if keys is None else _usable(keys, "keys=")

    def __reduce__(self) -> tuple[type[Seal], tuple[()]]:
        return Seal, ()  # no key travels with a closure

    def __repr__(self) -> str:
        return "Seal()"

    def sign(self, purpose: Purpose, content: bytes) -> str:
        """A line of text to keep beside the content."""
        key = self._all()[0]
        return f"1:{_name(key)}:{_mac(key, purpose, content)}"

    def check(self, purpose: Purpose, content: bytes, signature: str | None) -> None:
        """Raises Unsigned unless this user signed exactly this content for exactly this purpose."""
        found = _SIGNATURE.fullmatch(signature) if isinstance(signature, str) else None
        if found is None:
            raise Unsigned(purpose, NOT_SIGNED)
        known = False
        for key in self._all():
            if hmac.compare_digest(_mac(key, purpose, content), found[2]):
                return
            known = known or hmac.compare_digest(_name(key), found[1])
        raise Unsigned(purpose, ALTERED if known else FOREIGN)

    def wrap(self, purpose: Purpose, content: bytes) -> bytes:
        """The content with its signature in front, for a file that is of no use without whence."""
        return _HEADER + self.sign(purpose, content).encode() + b"\n" + content

    def unwrap(self, purpose: Purpose, data: bytes) -> bytes:
        """The content of `wrap`; raises Unsigned where `check` would."""
        signature, newline, content = data.removeprefix(_HEADER).partition(b"\n")
        if not data.startswith(_HEADER) or not newline:
            raise Unsigned(purpose, NOT_SIGNED)
        self.check(purpose, content, signature.decode("ascii", "replace"))
        return content

    def _all(self) -> tuple[bytes, ...]:
        if self._keys is None:
            self._keys = _found()
        return self._keys


def _mac(key: bytes, purpose: Purpose, content: bytes) -> str:
    # Lengths go in front, and the number of parts first: no two (purpose, content) give the same message.
    parts = [part.encode("utf-8", "surrogatepass") for part in purpose]
    mac = hmac.new(key, b"whence seal 1" + len(parts).to_bytes(8, "big"), hashlib.sha256)
    for part in (*parts, content):
        mac.update(len(part).to_bytes(8, "big"))
        mac.update(part)
    return mac.hexdigest()


def _name(key: bytes) -> str:
    """Tells keys apart without telling them."""
    return hmac.new(key, b"whence key name", hashlib.sha256).hexdigest()[:16]


# --- where keys are


def key_file() -> Path:
    home = os.environ.get("XDG_CONFIG_HOME")
    if home and os.path.isabs(home):
        return Path(home, "whence", "key")
    try:
        return Path.home() / ".config" / "whence" / "key"
    except RuntimeError as error:
        raise _no_key(f"this user has no home directory ({error})") from error


def _found() -> tuple[bytes, ...]:
    given = os.environ.get(KEY_VARIABLE)
    if given is not None and given.strip():
        return _usable(_split(given), KEY_VARIABLE)
    path = key_file()
    try:
        if not path.exists():
            _make(path)
        return _usable(_split(_read(path)), str(path))
    except OSError as error:
        raise _no_key(f"{path} cannot be read or made ({error.strerror or error})") from error


def _split(text: str) -> list[str]:
    return [key for key in re.split(r"[,\s]+", text) if key]


def _usable(keys: Sequence[str], where: str) -> tuple[bytes, ...]:
    if not keys:
        raise _no_key(f"{where} holds none")
    if any(len(key) < SHORTEST for key in keys):
        raise _no_key(f"a key in {where} is shorter than {SHORTEST} characters")
    return tuple(key.encode("utf-8", "surrogateescape") for key in keys)


def _make(path: Path) -> None:
    """Complete and private from its first moment on. Of processes that start together one wins, and all read that."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = path.with_name(f".key-{secrets.token_hex(8)}")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(secrets.token_hex(32) + "\n")
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(new, path)
        except FileExistsError:
            pass
        except OSError:  # a file system without hard links
            if not path.exists():
                os.replace(new, path)
    finally:
        new.unlink(missing_ok=True)


def _read(path: Path) -> str:
    """Asked of the open file, so that it cannot be exchanged between the question and the reading."""
    with path.open("rb") as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode):
            raise _no_key(f"{path} is no file")
        if hasattr(os, "getuid") and about.st_uid not in (os.getuid(), 0):
            raise _no_key(f"{path} belongs to another user")
        if os.name == "posix" and about.st_mode & 0o077:
            raise _no_key(f"others than its owner can use {path} (chmod 600 it, or remove it for a new one)")
        return file.read().decode("utf-8", "surrogateescape")


def _no_key(why: str) -> StoreError:
    return StoreError(
        f"There is no key to sign what the store keeps: {why}. Set {KEY_VARIABLE} to {SHORTEST} or more characters "
        'that nobody else knows, say of python3 -c "import secrets; print(secrets.token_hex(32))".'
    )
