from __future__ import annotations

from collections.abc import Iterable, Sequence
from textwrap import indent

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.syntax import Syntax
from rich.table import Table

RIGHT = {"bytes", "traffic", "before", "after"}


class Teller:
    """Short paragraphs, code and tables; plain text when the output is a file."""

    def __init__(self, console: Console | None = None) -> None:
        if console is None:
            console = Console(highlight=False)
            if not console.is_terminal:
                console = Console(highlight=False, width=110)
        self.console = console
        self._steps = 0

    def step(self, title: str, text: str) -> None:
        self._steps += 1
        self.console.print(f"\n[bold]{self._steps}. {title}[/bold]")
        self.say(text)

    def say(self, text: str) -> None:
        self.console.print(text, markup=False)

    def code(self, text: str) -> None:
        if self.console.is_terminal:
            block = Syntax(text.strip(), "python", background_color="default", word_wrap=True)
            self.console.print(Padding(block, (1, 0, 1, 4)))
        else:  # a file wants no spaces up to the right edge
            self.say("\n" + indent(text.strip(), "    ") + "\n")

    def table(self, title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        self.console.print(f"[italic]{title}[/italic]")
        table = Table(box=box.SIMPLE, pad_edge=False)
        for name in columns:
            table.add_column(name, justify="right" if name in RIGHT else "left")
        for row in rows:
            table.add_row(
                *(f"{cell:,}" if name == "bytes" else str(cell) for name, cell in zip(columns, row, strict=True))
            )
        self.console.print(table)
