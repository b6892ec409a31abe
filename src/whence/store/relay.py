"""Files of the driver, for Python on executors, which has no JVM to reach a file system through.

The driver listens; a task connects to it, proves that it has the key which travelled with its code, and says what is to
be read or written. What it sends goes to the `Files` that were mounted for it, below their root, and nowhere else. One
message is a line of JSON, then bytes; nothing is unpickled on either side. Spark's executors connect to the driver
anyway; where only some ports are open, `spark.whence.relay.port` names the one.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import threading
import uuid
from multiprocessing.connection import Client, Connection, Listener, answer_challenge, deliver_challenge
from typing import Any

from whence.model import StoreError
from whence.store.files import Files, RemoteFiles

_PIECE = 8 << 20
_PATIENCE = 5.0  # seconds


class Relay:
    """The driver's end. It listens from the first mount on, until it is closed."""

    def __init__(self, host: str = "127.0.0.1", bind: str = "127.0.0.1", port: int = 0) -> None:
        self._host, self._bind, self._port = host, bind, port
        self._key = secrets.token_bytes(32)
        self._mounted: dict[str, Files] = {}
        self._listener: Listener | None = None
        self._open: set[Connection] = set()
        self._lock = threading.Lock()
        self._closed = False

    def mount(self, files: Files) -> RelayedFiles:
        """These files as a task reaches them; it pickles."""
        name = uuid.uuid4().hex
        with self._lock:
            if self._closed:
                raise StoreError("The session that keeps these files is closed.")
            self._mounted[name] = files
            if self._listener is None:
                try:
                    self._listener = Listener((self._bind, self._port), "AF_INET", backlog=64)
                except OSError as problem:
                    raise StoreError(
                        f"Executors cannot hand over what they capture: {self._bind}:{self._port} cannot be listened "
                        f"on ({problem}). spark.whence.relay.port names another port."
                    ) from problem
                threading.Thread(target=self._accept, name="whence relay", daemon=True).start()
            port = int(self._listener.address[1])
        return RelayedFiles((self._host, port), self._key, name, files.root)

    def unmount(self, files: RelayedFiles) -> None:
        self._mounted.pop(files.name, None)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._mounted.clear()
            listener, self._listener = self._listener, None
            waiting = list(self._open)
        if listener is not None:
            with contextlib.suppress(OSError):  # so that the thread that accepts wakes up
                Client((self._bind, int(listener.address[1])), "AF_INET").close()
            listener.close()
        for connection in waiting:
            with contextlib.suppress(OSError):
                connection.close()

    def _accept(self) -> None:
        while (listener := self._listener) is not None:
            try:
                connection = listener.accept()
            except (OSError, EOFError):
                continue
            with self._lock:
                if self._closed:
                    connection.close()
                    return
                self._open.add(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: Connection) -> None:
        try:
            deliver_challenge(connection, self._key)
            answer_challenge(connection, self._key)
            held: dict[str, Any] = {}
            while True:
                header, _, content = connection.recv_bytes().partition(b"\n")
                connection.send_bytes(self._answered(json.loads(header), content, held))
        except Exception:  # a task that ended, or somebody without the key: there is nobody to tell
            pass
        finally:
            with self._lock:
                self._open.discard(connection)
            connection.close()

    def _answered(self, asked: dict[str, Any], content: bytes, held: dict[str, Any]) -> bytes:
        told: dict[str, Any] = {}
        given = b""
        try:
            files = self._mounted.get(asked["mount"])
            if files is None:
                raise StoreError("the session that keeps these files is closed")
            parts: list[str] = asked["parts"]
            match asked["do"]:
                case "write":
                    pieces = held.setdefault(asked["id"], [])
                    pieces.append(content)
                    if asked["last"]:
                        files.write(b"".join(held.pop(asked["id"])), *parts)
                case "read":
                    whole = held.get(asked["id"]) or files.read(*parts)
                    if whole is None:
                        raise FileNotFoundError("/".join(parts))
                    given = whole[asked["at"] : asked["at"] + _PIECE]
                    told["last"] = asked["at"] + len(given) == len(whole)
                    if told["last"]:
                        held.pop(asked["id"], None)
                    else:
                        held[asked["id"]] = whole
                case "names":
                    told["names"] = files.names(*parts)
                case "size":
                    told["size"] = files.size(*parts)
                case "changed":
                    told["changed"] = files.changed(*parts)
                case "delete":
                    files.delete(*parts)
                case "delete_tree":
                    files.delete_tree(*parts)
        except FileNotFoundError as problem:
            told = {"missing": str(problem)}
        except Exception as problem:
            told = {"error": str(problem).split("\n", 1)[0]}
        return json.dumps(told).encode() + b"\n" + given


class RelayedFiles(RemoteFiles):
    """A task's end. Each process has a connection of its own, made when it is needed."""

    def __init__(
        self, address: tuple[str, int], key: bytes, name: str, root: str, inside: tuple[str, ...] = ()
    ) -> None:
        super().__init__(root)
        self.name = name
        self._address, self._key, self._inside = address, key, inside
        self._connection: tuple[int, Connection] | None = None
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return RelayedFiles, (self._address, self._key, self.name, self.root, self._inside)

    def __repr__(self) -> str:
        return f"RelayedFiles({self.root!r})"

    def below(self, *parts: str) -> RelayedFiles:
        return RelayedFiles(self._address, self._key, self.name, self.path(*parts), (*self._inside, *parts))

    def _ask(
        self, what: str, parts: tuple[str, ...], content: bytes = b"", **more: Any
    ) -> tuple[dict[str, Any], bytes]:
        self.path(*parts)  # refuses names that lead elsewhere
        asked = {"do": what, "mount": self.name, "parts": [*self._inside, *parts], **more}
        message = json.dumps(asked).encode() + b"\n" + content
        with self._lock:
            try:
                connection = self._connected()
                connection.send_bytes(message)
                header, _, given = connection.recv_bytes().partition(b"\n")
            except (OSError, EOFError) as problem:
                self._connection = None
                raise StoreError(
                    f"The driver at {self._address[0]}:{self._address[1]}, which keeps the files of {self.root}, "
                    f"cannot be reached from this executor ({problem or type(problem).__name__}). Where only some "
                    "ports are open, name one in spark.whence.relay.port."
                ) from problem
        told: dict[str, Any] = json.loads(header)
        if "missing" in told:
            raise FileNotFoundError(told["missing"])
        if "error" in told:
            raise StoreError(told["error"])
        return told, given

    def _connected(self) -> Connection:
        if self._connection is None or self._connection[0] != os.getpid():  # a fork has the parent's
            # `Client` would wait for minutes where nobody answers, in the middle of somebody's task.
            socket.create_connection(self._address, _PATIENCE).close()
            connection = Client(self._address, "AF_INET")
            answer_challenge(connection, self._key)
            deliver_challenge(connection, self._key)
            self._connection = os.getpid(), connection
        return self._connection[1]

    def put(self, source: str, *parts: str) -> None:
        number = uuid.uuid4().hex
        with open(source, "rb") as file:
            while True:
                piece = file.read(_PIECE)
                last = len(piece) < _PIECE
                self._ask("write", parts, piece, id=number, last=last)
                if last:
                    return

    def write(self, data: bytes, *parts: str) -> None:
        number = uuid.uuid4().hex
        for first in range(0, max(len(data), 1), _PIECE):
            last = first + _PIECE >= len(data)
            self._ask("write", parts, data[first : first + _PIECE], id=number, last=last)
        self.forget(*parts)

    def fetch(self, target: str, *parts: str) -> None:
        number, at, last = uuid.uuid4().hex, 0, False
        with open(target, "wb") as file:
            while not last:
                told, given = self._ask("read", parts, id=number, at=at)
                file.write(given)
                at, last = at + len(given), bool(told["last"])

    def names(self, *parts: str) -> list[str]:
        names: list[str] = self._ask("names", parts)[0]["names"]
        return names

    def size(self, *parts: str) -> int | None:
        size: int | None = self._ask("size", parts)[0]["size"]
        return size

    def changed(self, *parts: str) -> int:
        return int(self._ask("changed", parts)[0]["changed"])

    def delete(self, *parts: str) -> None:
        self._ask("delete", parts)

    def delete_tree(self, *parts: str) -> None:
        self._ask("delete_tree", parts)
