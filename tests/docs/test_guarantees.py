"""docs/guarantees.md: every promise names a test, and every test that it names is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "guarantees.md"
_NAMED = re.compile(r"`(tests/[\w/]+\.py)::([\w:]+)`")


def _promises() -> list[tuple[str, str]]:
    rows = [line.split("|")[1:-1] for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    return [(promise.strip(), by.strip()) for promise, by in rows[1:] if not promise.strip().startswith("**")]


def _tests(file: str) -> set[str]:
    found: set[str] = set()
    for node in ast.parse((ROOT / file).read_text()).body:
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            found |= {f"{node.name}::{inner.name}" for inner in node.body if isinstance(inner, ast.FunctionDef)}
    return found


def test_every_promise_has_a_test() -> None:
    promises = _promises()
    assert len(promises) > 20
    assert [promise for promise, by in promises if not _NAMED.search(by)] == []


def test_every_test_that_is_named_is_there() -> None:
    quoted = [name for _, by in _promises() for name in re.findall(r"`[^`]*`", by)]
    missing = []
    for name in quoted:
        match = _NAMED.fullmatch(name)
        if match is None or not (ROOT / match[1]).is_file() or match[2] not in _tests(match[1]):
            missing.append(name)
    assert missing == []
