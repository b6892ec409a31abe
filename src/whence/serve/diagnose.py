"""`whence diagnose`: why do some settings of a command fail?"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer


def diagnose(
    history: Annotated[
        Path | None, typer.Option(help="CSV or Parquet file of runs: parameters and an outcome.")
    ] = None,
    script: Annotated[
        str | None, typer.Option(help="Command to run, such as 'python train.py {params}' or 'train --lr {lr}'.")
    ] = None,
    space: Annotated[
        Path | None,
        typer.Option(help="YAML or JSON file of parameter names and values; default: those of the history."),
    ] = None,
    budget: Annotated[int | None, typer.Option(help="New runs at most; 0 explains the history alone.")] = None,
    outcome: Annotated[str | None, typer.Option(help="The history's column that says how a run ended.")] = None,
    goal: Annotated[str, typer.Option(help="'all' causes, or 'one': stop at the first confirmed.")] = "all",
    flaky: Annotated[bool, typer.Option("--flaky", help="The same settings may fail and succeed.")] = False,
    workers: Annotated[int, typer.Option(help="Runs at the same time.")] = 1,
    timeout: Annotated[float | None, typer.Option(help="Seconds after which a run counts as failed.")] = None,
    store: Annotated[
        Path | None, typer.Option(help="File that keeps every run; the same command goes on from it.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="For the same choices again.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write the report as an HTML page.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write all runs, with their causes, as CSV or Parquet.")] = None,
) -> None:
    """Find the settings that make a command fail, with as few runs as possible."""
    from whence.debug.diagnose import DiagnoseError, Interrupted, Space
    from whence.debug.diagnose import diagnose as search
    from whence.debug.diagnose.script import Script
    from whence.debug.diagnose.sources import from_file, gridded, write_file

    if history is None and script is None:
        raise DiagnoseError("Give --history (runs that were made), --script (a command to run), or both.")
    runs = from_file(history, outcome) if history is not None else []
    if space is not None:
        given = Space.of(read_space(space))
    elif runs:
        given, configs = gridded([run.config for run in runs], [run.succeeded for run in runs])
        runs = [replace(run, config=config) for run, config in zip(runs, configs, strict=True)]
    else:
        raise DiagnoseError("Without a history the parameters must be given: add --space space.yaml.")
    pipeline = Script(script, given.names, timeout) if script is not None else None
    broken: Interrupted | None = None
    try:
        d = search(
            pipeline,
            given,
            runs,
            budget=0 if script is None else budget,
            flaky=flaky,
            workers=workers,
            seed=seed,
            store=store,
            goal=goal,
            progress=sys.stderr.isatty(),
        )
    except Interrupted as error:
        d, broken = error.diagnosis, error
    report = d.report()
    print(report)
    if html is not None:
        print(f"The report is in {report.save(html)}.")
    if out is not None:
        print(f"The runs are in {write_file(d, out)}.")
    if broken is not None:
        where = f"the same command goes on from {store}" if store else "with --store FILE the same command would go on"
        print(f"whence: interrupted after {d.executions} runs; {where}.", file=sys.stderr)
        raise typer.Exit(130)


def read_space(path: Path) -> Any:
    """Parameter names and values as pairs, so that a name that stands twice is seen."""
    from whence.debug.diagnose import BadSpace

    try:
        text = path.read_text()
    except OSError as error:
        raise BadSpace(f"The space cannot be read from {path}: {error.strerror}.") from error
    if path.suffix == ".json":
        try:
            pairs = json.loads(text, object_pairs_hook=list)
        except ValueError as error:
            raise BadSpace(f"{path} is not JSON: {error}.") from error
    else:
        import yaml

        try:
            node = yaml.compose(text, Loader=yaml.SafeLoader)
            pairs = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise BadSpace(f"{path} is not YAML: {error}.") from error
        if isinstance(node, yaml.MappingNode):
            names = [key.value for key, _ in node.value]
            values = {str(k): v for k, v in pairs.items()}
            pairs = [(name, values[name]) for name in names]
    if not isinstance(pairs, list) or not all(isinstance(p, tuple | list) and len(p) == 2 for p in pairs):
        raise BadSpace(f"{path} must map each parameter to a list of values, such as 'lr: [0.1, 0.01]'.")
    return [(str(name), values) for name, values in pairs]
