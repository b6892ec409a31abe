"""Machine learning: PySpark's pipelines send no events, so fitting, transforming, saving and loading are wrapped.

What happens inside (the many jobs of a fit, the many small files of a saved model) is tagged and left out: each call is
one run. A model goes by its saved path; before it is saved it has a name of its own, which the path then replaces.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from whence.model import COMPLETED, FAILED, Run
from whence.model.lineage import DIRECT, INPUT, Change, ColumnLink, Link, Observation, Seen, Use
from whence.model.quiet import QUIET
from whence.model.redact import parse_redacted, redact
from whence.watch.columns import SUBTYPES, TRANSFORMATION, is_direct, through
from whence.watch.naming import of_path
from whence.watch.nodes import Reading

if TYPE_CHECKING:
    from whence.watch.listener import Listener
    from whence.watch.patches import Patches
    from whence.watch.watcher import Watcher

Name = tuple[str, str]


@dataclass(eq=False)
class Training:
    """What a model was trained on, as far as this process has seen it; `path` is where it was saved last, or came from.

    `at` is when the training ended, in milliseconds."""

    model: str
    frame: Any = None
    at: int = 0
    path: str | None = None


class MachineLearning:
    def __init__(self, patches: Patches, watcher: Watcher, listener: Listener) -> None:
        self._watcher = watcher
        self._listener = listener
        self._quietly = patches.quietly
        self._inside = threading.local()
        from pyspark.ml import base, pipeline, util

        patches.wrap(base.Estimator, "fit", self._fitting)
        patches.wrap(base.Transformer, "transform", self._transforming)
        patches.wrap(util.JavaMLWriter, "__init__", self._writer)
        for writer in (util.MLWriter, util.JavaMLWriter):
            patches.wrap(writer, "save", self._saving)
        for reader in (
            util.JavaMLReader,
            util.DefaultParamsReader,
            pipeline.PipelineReader,
            pipeline.PipelineModelReader,
        ):
            patches.wrap(reader, "load", self._loading)

    @contextmanager
    def _one_run(self) -> Iterator[bool]:
        """True for the outermost of nested calls; only that one is a run."""
        outermost = not getattr(self._inside, "yes", False)
        if not outermost:
            yield False
            return
        self._inside.yes = True
        try:
            with self._listener.tagged(QUIET):
                yield True
        finally:
            self._inside.yes = False

    def _fitting(self, original: Callable[..., Any], estimator: Any, dataset: Any, *args: Any, **kwargs: Any) -> Any:
        with self._one_run() as outermost:
            if not outermost:
                return original(estimator, dataset, *args, **kwargs)
            started = datetime.now(timezone.utc)
            plan = self._quietly(self._listener.plan, dataset)
            try:
                model = original(estimator, dataset, *args, **kwargs)
            except Exception as problem:
                run = self._run("train", estimator, started, redact(str(problem))[:4000])
                self._watcher.submit(lambda: Observation(run))
                raise
            run = self._run("train", estimator, started)
            for fitted in model if isinstance(model, list) else [model]:
                if hasattr(fitted, "uid"):
                    self._quietly(self._trained, estimator, fitted, plan, run)
                    self._quietly(_remember, fitted, dataset)
            return model

    def _trained(self, estimator: Any, model: Any, plan: str | None, run: Run) -> None:
        name = ("spark-ml", f"{model.uid}#{run.id[:8]}")
        model._whence_name = name
        used = _columns_used(estimator)
        before = self._seen(estimator, "pipeline")

        def task() -> Observation:
            reading = Reading(self._watcher.place)
            columns: list[ColumnLink] = []
            found: list[tuple[str, Any]] = []
            if plan:
                tree = parse_redacted(plan)
                reading.rows(tree)
                found = reading.outputs(tree)
            sources = set(reading.read)
            target = reading.dataset(Seen(*name, "model", (("model", ""),)))
            for column, contributions in found:
                if column in used:
                    for source, source_column, transformation, masked in through(TRANSFORMATION, contributions):
                        kind = DIRECT if is_direct(transformation) else "INDIRECT"
                        columns.append(
                            ColumnLink(source, source_column, target, "model", kind, SUBTYPES[transformation], masked)
                        )
            estimated = reading.dataset(before)
            links = [Link(source, target, "train") for source in sorted(sources)]
            links.append(Link(estimated, target, "train"))
            return Observation(
                run,
                tuple(reading.datasets),
                (Change(target, "overwrite"),),
                tuple(links),
                tuple(dict.fromkeys(columns)),
            )

        self._watcher.submit(task)

    def _transforming(
        self, original: Callable[..., Any], transformer: Any, dataset: Any, *args: Any, **kwargs: Any
    ) -> Any:
        with self._one_run() as outermost:
            result = original(transformer, dataset, *args, **kwargs)
            if outermost and hasattr(transformer, "uid"):
                self._quietly(self._transformed, transformer, dataset, result)
            return result

    def _transformed(self, transformer: Any, dataset: Any, result: Any) -> None:
        """Columns that the transformer added will be known by it, wherever they are written."""
        if not _is_model(transformer):
            return
        new = set(self._listener.output_ids(result)) - set(self._listener.output_ids(dataset))
        models = self._watcher.models
        if len(models) > 100_000:
            models.clear()
        for number in new:
            models[number] = self._seen(transformer, "model")
        training = getattr(transformer, "_whence_training", None)
        if training is not None:
            if len(self._watcher.trainings) > 10_000:
                self._watcher.trainings.clear()
            self._watcher.trainings.update(dict.fromkeys(new, training))

    def _writer(self, original: Callable[..., Any], writer: Any, instance: Any, *args: Any, **kwargs: Any) -> None:
        original(writer, instance, *args, **kwargs)
        writer._whence_instance = instance

    def _saving(self, original: Callable[..., Any], writer: Any, path: str, *args: Any, **kwargs: Any) -> Any:
        with self._one_run() as outermost:
            started = datetime.now(timezone.utc)
            result = original(writer, path, *args, **kwargs)
            instance = getattr(writer, "_whence_instance", None) or getattr(writer, "instance", None)
            if outermost and instance is not None:
                self._quietly(self._saved, instance, path, started)
            return result

    def _saved(self, instance: Any, path: str, started: datetime) -> None:
        before = self._seen(instance, "model" if _is_model(instance) else "pipeline")
        name = self._listener.qualified(path)
        instance._whence_name = of_path(name)
        run = self._run("save", instance, started)
        saved = Seen(*of_path(name), before.kind, before.columns, ((before.namespace, before.name),))
        self._watcher.submit(lambda: Observation(run, (saved,), (Change(0, "alter"),)))
        training: Training | None = getattr(instance, "_whence_training", None)
        if training is not None:
            training.path = path
            if training.frame is not None and self._watcher.on_saved is not None:
                self._watcher.on_saved(path, training.frame, training.at)

    def _loading(self, original: Callable[..., Any], reader: Any, path: str, *args: Any, **kwargs: Any) -> Any:
        with self._one_run() as outermost:
            started = datetime.now(timezone.utc)
            instance = original(reader, path, *args, **kwargs)
            if outermost and hasattr(instance, "uid"):
                self._quietly(self._loaded, instance, path, started)
            return instance

    def _loaded(self, instance: Any, path: str, started: datetime) -> None:
        instance._whence_name = of_path(self._listener.qualified(path))
        if _is_model(instance):
            instance._whence_training = Training(type(instance).__name__, path=path)
        seen = self._seen(instance, "model" if _is_model(instance) else "pipeline")
        run = self._run("load", instance, started)
        self._watcher.submit(lambda: Observation(run, (seen,), uses=(Use(0, INPUT),)))

    def _seen(self, instance: Any, kind: str) -> Seen:
        name: Name | None = getattr(instance, "_whence_name", None)
        if name is None:
            name = instance._whence_name = ("spark-ml", str(instance.uid))
        return Seen(*name, kind, (("model", ""),) if kind == "model" else ())

    def _run(self, kind: str, instance: Any, started: datetime, error: str | None = None) -> Run:
        details: dict[str, object] = {
            "class": type(instance).__name__,
            "uid": str(getattr(instance, "uid", "")),
            "parameters": self._quietly(_parameters, instance) or {},
            "stages": self._quietly(_stages, instance) or [],
        }
        ended = datetime.now(timezone.utc)
        status = FAILED if error else COMPLETED
        place = self._watcher.place
        return Run(
            str(uuid.uuid4()),
            kind,
            type(instance).__name__,
            status,
            error,
            started,
            ended,
            place.application_id,
            details,
        )


def _remember(model: Any, frame: Any) -> None:
    """What a pipeline or a tuner is made of was trained on the same rows."""
    parts = [*(getattr(model, "stages", None) or ()), getattr(model, "bestModel", None)]
    for one in (model, *(part for part in parts if part is not None and _is_model(part))):
        one._whence_training = Training(type(one).__name__, frame, int(time.time() * 1000))
        if one is not model:
            _remember(one, frame)


def _is_model(instance: Any) -> bool:
    from pyspark.ml import Model

    return isinstance(instance, Model)


def _held(instance: Any) -> list[Any]:
    """The stages of a pipeline, fitted or not; what a tuner tunes."""
    stages = getattr(instance, "stages", None)
    if isinstance(stages, list):
        return stages
    for getter in ("getStages", "getEstimator"):
        if hasattr(instance, getter):
            found = getattr(instance, getter)()
            return found if isinstance(found, list) else [found]
    return []


def _stages(instance: Any) -> list[Mapping[str, object]]:
    return [
        {"class": type(s).__name__, "uid": str(getattr(s, "uid", "")), "parameters": _parameters(s)}
        for s in _held(instance)
    ]


def _parameters(instance: Any) -> dict[str, str]:
    if not hasattr(instance, "extractParamMap"):
        return {}
    return {
        p.name: redact(str(value))[:300]
        for p, value in instance.extractParamMap().items()
        if p.name not in ("stages", "estimator", "estimatorParamMaps")
    }


def _columns_used(instance: Any) -> set[str]:
    """Columns that parameters such as featuresCol, labelCol and inputCols name."""
    found: set[str] = set()
    if hasattr(instance, "extractParamMap"):
        for p, value in instance.extractParamMap().items():
            if p.name.lower().endswith("col") and isinstance(value, str):
                found.add(value)
            elif p.name.lower().endswith("cols") and isinstance(value, (list, tuple)):
                found.update(str(v) for v in value)
            elif p.name == "formula":
                found.update(str(value).replace("~", " ").replace("+", " ").split())
    for stage in _held(instance):
        found |= _columns_used(stage)
    return found
