"""`whence run`: an unmodified PySpark script or Python command, watched."""

from __future__ import annotations

import os
import runpy
import shlex
import shutil
import sys
import time
import traceback
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from whence.serve.commands.options import StoreOption
from whence.spark.sessions import is_classic

if TYPE_CHECKING:
    from whence import Session

app = typer.Typer(rich_markup_mode=None, add_completion=False)
_ALONE = ("--verbose", "-v", "--supervise")
"""Options of spark-submit that take no value."""


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True,
                               "allow_interspersed_args": False})  # fmt: skip
def run(
    context: typer.Context,
    words: Annotated[
        list[str],
        typer.Argument(help="Options of spark-submit if any, the script, and its arguments.", metavar="SCRIPT ..."),
    ],
    store: StoreOption = None,
    capture: Annotated[
        bool, typer.Option("--capture", help="Also keep what lets traces go on through the tables that it writes.")
    ] = False,
) -> None:
    """Run a PySpark script as it is, with the watcher attached; end with what it read and wrote.

    Options of spark-submit may stand before the script: whence run --master local[4] --conf a=b job.py input.
    The script may also be a Python command that is installed beside whence: whence run --capture dbt build."""
    options, script, arguments = parted([*words, *context.args])
    if script is None:
        raise typer.BadParameter("no script is given.", param_hint="SCRIPT")
    code = Watched(store, capture).run(options, found(script), arguments)
    sys.stdout.flush()
    raise typer.Exit(code)


def parted(words: list[str]) -> tuple[list[str], str | None, list[str]]:
    """Options of spark-submit, the script, the script's arguments."""
    place = 0
    while place < len(words) and words[place].startswith("-"):
        alone = words[place] in _ALONE or "=" in words[place].partition(" ")[0]
        place += 1 if alone else 2
    script = words[place] if place < len(words) else None
    return words[:place], script, words[place + 1 :]


def found(script: str) -> str:
    """The file to run: the script itself, or the Python command of that name beside whence."""
    if Path(script).is_file():
        return script
    if os.sep in script:
        raise typer.BadParameter(f"{script} is not a file.", param_hint="SCRIPT")
    ours = Path(sys.executable).parent
    command = shutil.which(script, path=str(ours)) or shutil.which(script)
    if command is None:
        raise typer.BadParameter(f"{script} is neither a file nor a command on the PATH.", param_hint="SCRIPT")
    # pip writes the interpreter into the first line, or into the second where its path is long.
    with Path(command).open("rb") as file:
        head = b"".join(file.readlines(400)[:2]).decode(errors="replace")
    if not head.startswith("#!") or "python" not in head:
        raise typer.BadParameter(f"{command} is not a Python program, so it cannot be watched.", param_hint="SCRIPT")
    if str(ours) + os.sep not in head:
        raise typer.BadParameter(
            f"{command} runs in another Python than whence ({sys.executable}). Install both in one environment.",
            param_hint="SCRIPT",
        )
    return command


class Watched:
    """Attaches to the first session that the script makes, and looks at the catalogue before that ends."""

    def __init__(self, store: str | None, capture: bool = False) -> None:
        self._store = store
        self._capture = capture
        self._capturing = ExitStack()
        self._session: Session | None = None
        self._application = ""
        self._seconds = 0.0
        self._report: list[str] | None = None

    def run(self, options: list[str], script: str, arguments: list[str]) -> int:
        from whence.serve.java import provide

        provide()
        if options:
            os.environ["PYSPARK_SUBMIT_ARGS"] = shlex.join([*options, "pyspark-shell"])
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        self._watch()
        sys.argv = [script, *arguments]
        sys.path[0] = str(Path(script).resolve().parent)
        code = 0
        try:
            runpy.run_path(script, run_name="__main__")
        except SystemExit as leaving:
            code = _code(leaving.code)
        except BaseException as error:
            traceback.print_exception(error)
            code = 130 if isinstance(error, KeyboardInterrupt) else 1
        self._end()
        print("\n".join(self._report or ["whence: the script made no Spark session, so there was nothing to watch."]))
        return code

    def _watch(self) -> None:
        from pyspark import SparkContext
        from pyspark.sql import SparkSession

        begin, stop = SparkSession.__init__, SparkContext.stop

        def begun(session: Any, *args: Any, **kwargs: Any) -> None:
            begin(session, *args, **kwargs)
            self._attach(session)

        def stopped(context: Any) -> None:
            self._end()
            stop(context)

        SparkSession.__init__ = begun  # type: ignore[assignment, method-assign]
        SparkContext.stop = stopped  # type: ignore[assignment, method-assign]

    def _attach(self, spark: Any) -> None:
        if self._session is not None or self._report is not None or not is_classic(spark):
            return
        from whence import Session

        began = time.perf_counter()
        try:
            self._session = Session(spark, self._store)
            self._application = spark.sparkContext.applicationId
            if self._capture:
                self._capturing.enter_context(self._session.capture())
        except Exception as error:  # the script runs all the same
            self._report = [f"whence: the script could not be watched: {error}"]
        self._seconds += time.perf_counter() - began

    def _end(self) -> None:
        session, self._session = self._session, None
        if session is None:
            return
        began = time.perf_counter()
        try:
            self._capturing.close()
            catalog = session.catalog
            found = [a for a in catalog.applications() if a.id == self._application]
            lines = [f"whence: {_sum(found[0].runs if found else 0, 'run')} observed"]
            for what, held in (("read", found[0].inputs), ("wrote", found[0].outputs)) if found else ():
                lines += [f"  {what} {dataset.name}" for dataset in held]
            failed = found[0].failed if found else 0
            if failed:
                lines.append(f"  {_sum(failed, 'run')} failed: whence runs --status failed")
            watcher = session._watcher
            if watcher is not None:
                self._seconds += sum(watcher.parse_seconds) + watcher.store_seconds
            session.close()
            self._seconds += time.perf_counter() - began
            lines.append(f"whence took {self._seconds:.1f} s")
            self._report = lines
        except Exception as error:  # the script's own end must not suffer
            self._report = [f"whence: what the script did cannot be told: {error}"]


def _sum(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _code(code: Any) -> int:
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    print(code, file=sys.stderr)
    return 1
