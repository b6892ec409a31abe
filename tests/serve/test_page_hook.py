"""The page is built while a package is made, where it can be; where it cannot, the reason is said."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def hook() -> ModuleType:
    spec = importlib.util.spec_from_file_location("page_hook", ROOT / "scripts" / "page_hook.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    (tmp_path / "ui" / "src").mkdir(parents=True)
    (tmp_path / "ui" / "src" / "main.tsx").write_text("1")
    (tmp_path / "src" / "whence" / "serve" / "page").mkdir(parents=True)
    return tmp_path


def test_without_node_the_reason_is_said(hook: ModuleType, clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(clone))
    said: list[str] = []
    assert "node 20.19 or newer and npm are needed" in hook.build(clone, said.append)
    assert said == []


def test_what_is_built_from_the_same_sources_is_not_built_again(
    hook: ModuleType, clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(clone))
    (clone / hook.PAGE / hook.STAMP).write_text(hook.digest_of(clone / "ui"))
    assert hook.build(clone, print) is None
    (clone / "ui" / "src" / "main.tsx").write_text("2")
    assert hook.build(clone, print) is not None


def test_what_npm_says_is_handed_on(hook: ModuleType, clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, script in (("node", "echo v22.1.0"), ("npm", "echo no such package >&2; exit 1")):
        (clone / name).write_text(f"#!/bin/sh\n{script}\n")
        (clone / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{clone}:/bin:/usr/bin")
    said: list[str] = []
    answer = hook.build(clone, said.append)
    assert "npm install" in answer
    assert "no such package" in answer
    assert len(said) == 1
