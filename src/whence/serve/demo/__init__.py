"""`whence demo`: the story of section 2 of the Newt paper, with real data, a real job and real traces."""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack
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
    from whence.serve.demo import quiet
    from whence.serve.demo.teller import Teller

    out = Teller()
    start = time.perf_counter()
    java.provide()
    with ExitStack() as stack:
        if keep is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="whence-demo-")))
        else:
            folder = keep.absolute()
            folder.mkdir(parents=True, exist_ok=True)
        out.say("Starting Spark on this machine ...")
        spark = stack.enter_context(quiet.spark(folder))
        from whence.serve.demo import story

        story.tell(spark, folder, out)
    out.say(f"\nThat took {time.perf_counter() - start:.0f} seconds, Spark's start included.")
