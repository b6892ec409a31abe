"""The command `whence`. A new command is one line in COMMANDS.

A command's module is imported when the command is asked for (or listed by --help), so it must be light at import:
pyspark, a web server and the like are imported inside the function.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from whence.model import WhenceError
from whence.version import __version__

# name -> "module:function", or "module:app" with a typer.Typer for a command that has commands of its own
COMMANDS = {
    "demo": "whence.serve.demo:demo",
    "datasets": "whence.serve.commands.catalog:datasets",
    "runs": "whence.serve.commands.catalog:runs",
    "lineage": "whence.serve.commands.catalog:lineage",
    "impact": "whence.serve.commands.catalog:impact",
    "search": "whence.serve.commands.catalog:search",
    "export": "whence.serve.commands.events:export",
    "import": "whence.serve.commands.events:take",
    "store": "whence.serve.commands.store:app",
    "token": "whence.serve.commands.tokens:app",
    "serve": "whence.serve.commands.serve:serve",
    "run": "whence.serve.commands.run:app",
    "trace": "whence.serve.commands.rows:trace",
    "forward": "whence.serve.commands.rows:forward",
    "why-not": "whence.serve.commands.rows:why_not",
    "explain": "whence.serve.commands.rows:explain",
    "diagnose": "whence.serve.diagnose:diagnose",
    "version": "whence.serve.cli:version",
}


class Commands(TyperGroup):
    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        return load(cmd_name)


def load(name: str) -> Any:
    module, attribute = COMMANDS[name].split(":")
    found = getattr(import_module(module), attribute)
    if not isinstance(found, typer.Typer):
        holder = typer.Typer(add_completion=False, rich_markup_mode=None)
        holder.command(name)(found)
        found = holder
    command = typer.main.get_command(found)
    command.name = name
    return command


app = typer.Typer(
    cls=Commands,
    add_completion=True,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _say_version(wanted: bool) -> None:
    if wanted:
        version()
        raise typer.Exit


@app.callback()
def whence(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Print the version and leave.")
    ] = False,
) -> None:
    """Which input rows made this output row? Lineage, replay and debugging for PySpark."""


def version() -> None:
    """Print the version."""
    print(__version__)


def main() -> None:
    try:
        app(prog_name="whence")
    except WhenceError as error:
        print(f"whence: {error}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
