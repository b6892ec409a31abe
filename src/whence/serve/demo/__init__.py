"""`whence demo`: the story of section 2 of the Newt paper, with real data, a real job and real traces."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer


def demo(
    keep: Annotated[
        Path | None,
        typer.Option(metavar="DIRECTORY", help="Keep the logs and the store in this directory, to go on with them."),
    ] = None,
) -> None:
    """Trace a strange total to the log lines behind it: a story.

    It makes a day of traffic logs, runs a Spark job on them, asks whence, and takes under a minute.
    """
    from whence.serve import java
    from whence.serve.demo import quiet, story

    java.provide()
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        with quiet.spark(keep) as spark:
            story.tell(spark, keep)
        return
    with tempfile.TemporaryDirectory(prefix="whence-demo-") as folder, quiet.spark(Path(folder)) as spark:
        story.tell(spark, Path(folder))
