"""whence.diagnose: run the pipeline where it tells most, until the causes of its failures are known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whence.debug.diagnose.diagnosis import Diagnosis
from whence.debug.diagnose.errors import DiagnoseError, Interrupted
from whence.debug.diagnose.execute import Executor, Inline, Pool, SparkJobs
from whence.debug.diagnose.options import require_callable, require_number, require_timeout
from whence.debug.diagnose.runs import Outcome
from whence.debug.diagnose.space import Config, Space
from whence.spark.sessions import is_classic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def diagnose(
    pipeline: Callable[[Config], Any] | None,
    space: Space | Mapping[str, Iterable[Any]] | Iterable[tuple[str, Iterable[Any]]],
    history: Iterable[object] | None = None,
    evaluate: Callable[[Any], bool] | None = None,
    budget: int | None = None,
    valid: Callable[[Config], bool] | None = None,
    flaky: bool | float = False,
    workers: int = 1,
    seed: int | None = None,
    *,
    spark: SparkSession | None = None,
    store: str | Path | None = None,
    timeout: float | None = None,
    cost: Callable[[Config], float] | None = None,
    goal: str = "all",
    progress: Callable[[Diagnosis], None] | bool = False,
) -> Diagnosis:
    """Find the minimal conditions on parameters that make `pipeline(config)` fail.

    A run fails when it raises, when its result is False, or when `evaluate(result)` is not true. `budget` counts new
    runs; with `budget=0` the history alone is explained and `pipeline` may be None. Runs go to this process, to
    `workers` processes (also with `timeout`, in seconds), or to Spark (`spark`). `store` names a file that keeps every
    run, so that the same call goes on after a break. `goal="one"` stops at the first confirmed cause.
    """
    require_number("workers", workers, "of processes", least=1)
    require_timeout(timeout)
    require_callable("pipeline", pipeline, "of a configuration")
    require_callable("evaluate", evaluate, "of a result")
    if not isinstance(progress, bool):
        require_callable("progress", progress, "that is called after each run, or True")
    if spark is not None and not is_classic(spark):
        raise DiagnoseError(f"spark is a Spark session to run configurations on, not {spark!r}.")
    d = Diagnosis(space, history, budget=budget, valid=valid, flaky=flaky, seed=seed, cost=cost, goal=goal, store=store)
    if budget == 0:
        return d
    if pipeline is None:
        raise DiagnoseError("There is no pipeline to run. Give one, or say budget=0 to explain the history alone.")
    executor: Executor
    if spark is not None:
        executor = SparkJobs(spark, pipeline, evaluate)
    elif workers > 1 or timeout is not None:
        executor = Pool(pipeline, evaluate, workers, timeout)
    else:
        executor = Inline(pipeline, evaluate)
    try:
        if progress is True:
            from whence.debug.diagnose.progress import Bar

            with Bar() as bar:
                _loop(d, executor, workers, bar.show)
        else:
            _loop(d, executor, workers, progress or None)
    except KeyboardInterrupt as interrupt:
        where = f"call diagnose with store={str(store)!r} again" if store else "pass history=error.diagnosis.history"
        raise Interrupted(
            f"Interrupted after {d.executions} runs. Nothing is lost: to go on, {where}; what is known so far is in "
            "the error's .diagnosis.",
            d,
        ) from interrupt
    finally:
        executor.close()
    d.check()
    return d


def _loop(d: Diagnosis, executor: Executor, workers: int, show: Callable[[Diagnosis], None] | None) -> None:
    under_way: dict[int, Config] = {}
    number = 0
    while True:
        while len(under_way) < workers:
            asked = d.ask()
            if not asked:
                break
            number += 1
            under_way[number] = asked[0]
            executor.submit(number, asked[0])
        if not under_way:
            return
        for ended, outcome in executor.wait():
            _take(d, under_way.pop(ended), outcome)
        gone = d.obsolete() if under_way else []
        for waiting, config in list(under_way.items()):
            if config in gone:
                executor.cancel(waiting)
                d.drop(config)
                del under_way[waiting]
        if show is not None:
            show(d)


def _take(d: Diagnosis, config: Config, outcome: Outcome) -> None:
    if outcome.broken is not None:
        raise DiagnoseError(
            f"The evaluate function raised {outcome.broken} on the result of {config!r}. It must return True or False "
            "for every result; a pipeline that fails should raise or return something that evaluate says False to."
        )
    d.tell(config, outcome.succeeded, error=outcome.error, seconds=outcome.seconds)
