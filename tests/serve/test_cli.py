from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import whence
from whence.serve import cli

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("words", [["version"], ["--version"]])
def test_says_its_version(words: list[str]) -> None:
    said = CliRunner().invoke(cli.app, words)
    assert (said.exit_code, said.output) == (0, f"{whence.__version__}\n")


def test_help_lists_every_command_with_what_it_does() -> None:
    said = CliRunner().invoke(cli.app, ["--help"], prog_name="whence")
    assert said.exit_code == 0
    for name in cli.COMMANDS:
        line = next(line for line in said.output.splitlines() if line.strip().startswith(f"{name} "))
        assert len(line.split()) > 2, f"{name} has no help"


def test_unknown_command_is_named() -> None:
    said = CliRunner().invoke(cli.app, ["bogus"], prog_name="whence")
    assert said.exit_code == 2
    assert "bogus" in said.output


def test_help_brings_no_pyspark() -> None:
    code = (
        "import sys; from typer.testing import CliRunner; from whence.serve.cli import app;"
        "assert CliRunner().invoke(app, ['--help']).exit_code == 0;"
        "sys.exit('pyspark' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, cwd=ROOT / "src").returncode == 0


def test_a_missing_package_is_named_with_its_extra() -> None:
    code = "import sys; sys.modules['typer'] = None; from whence.serve.start import main; main()"
    done = subprocess.run([sys.executable, "-c", code], check=False, cwd=ROOT / "src", capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == "whence: this needs typer, which is not installed here: pip install 'whence[cli]'\n"


def test_an_error_is_one_sentence_not_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails() -> None:
        raise whence.StoreError("The store /nowhere cannot be written.")

    monkeypatch.setattr(cli, "version", fails)
    monkeypatch.setattr(sys, "argv", ["whence", "version"])
    with pytest.raises(SystemExit) as leaving:
        cli.main()
    assert leaving.value.code == 1
    assert capsys.readouterr().err == "whence: The store /nowhere cannot be written.\n"


def test_reference_page_is_what_help_says() -> None:
    """docs/cli.md covers every command: it is made from --help, and this holds it up to date."""
    check = [sys.executable, ROOT / "scripts" / "cli_docs.py", "--check"]
    done = subprocess.run(check, check=False, capture_output=True, text=True, env={"PYTHONPATH": str(ROOT / "src")})
    assert done.returncode == 0, done.stderr
    page = (ROOT / "docs" / "cli.md").read_text()
    for name in cli.COMMANDS:
        assert f"## whence {name}\n" in page
