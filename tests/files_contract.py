"""What every `Files` passes, whatever lies behind it."""

from __future__ import annotations

import pytest

from whence.model import StoreError
from whence.store import Files


def check(files: Files) -> None:
    """In one go: a file system on loopback takes longer to start than this."""
    assert files.read("a", "missing") is None
    assert files.size("a", "missing") is None
    assert files.changed("a", "missing") == 0
    assert files.names("a") == []
    files.delete_tree("a")

    files.write(b"one", "a", "b", "first")
    assert files.read("a", "b", "first") == b"one"
    files.write(b"another", "a", "b", "first")  # what is there is replaced
    assert files.read("a", "b", "first") == b"another"
    assert files.size("a", "b", "first") == 7
    assert files.size("a", "b") is None
    assert files.changed("a", "b", "first") > 0
    files.write(b"", "a", "empty")
    assert files.read("a", "empty") == b""

    large = bytes(range(256)) * 70_000  # more than one piece of a relay
    sink = files.create("a", "b", "second")
    sink.write(large[:1000])
    sink.write(memoryview(large)[1000:])
    sink.close()
    assert (sink.bytes, sink.closed) == (len(large), True)
    assert files.read("a", "b", "second") == large
    with files.open("a", "b", "second") as opened:
        opened.seek(300)
        assert opened.read(3) == large[300:303]
    with open(files.local("a", "b", "second"), "rb") as file:
        assert file.read() == large
    with pytest.raises(FileNotFoundError), open(files.local("a", "b", "missing"), "rb"):
        pass

    assert files.names("a") == ["b", "empty"]
    assert files.names("a", "b") == ["first", "second"]  # and nothing half-written beside them
    assert files.names("a", "empty") == []
    below = files.below("a", "b")
    assert below.names() == ["first", "second"]
    assert below.root == files.path("a", "b")
    below.delete("first")
    assert files.names("a", "b") == ["second"]
    files.delete_tree("a", "b")
    assert files.names("a") == ["empty"]
    for name in ("..", "x/y", "", "."):
        with pytest.raises(StoreError, match="cannot be the name"):
            files.write(b"", "a", name)
