"""The run that started this application, as orchestrators tell it: by Spark's settings or environment variables."""

from __future__ import annotations

from collections.abc import Callable, Mapping

Parent = dict[str, str]
"""namespace and name of the job, and its run."""


def parent_of(setting: Callable[[str, str], str | None], environment: Mapping[str, str]) -> Parent:
    """The first that is told completely; {} where nobody says."""
    return _settings(setting) or _openlineage(environment) or _airflow(environment) or _dagster(environment)


def _settings(setting: Callable[[str, str], str | None]) -> Parent:
    """Those of OpenLineage's Spark listener, which Airflow can set for a job it submits."""
    name, run = (setting(f"spark.openlineage.{key}", "") for key in ("parentJobName", "parentRunId"))
    return _parent(setting("spark.openlineage.parentJobNamespace", ""), name, run)


def _openlineage(environment: Mapping[str, str]) -> Parent:
    """`namespace/name/run`, which dbt and OpenLineage's own command line take too."""
    parts = environment.get("OPENLINEAGE_PARENT_ID", "").rsplit("/", 2)
    return _parent(*parts) if len(parts) == 3 else {}


def _airflow(environment: Mapping[str, str]) -> Parent:
    dag, task, run = (environment.get(f"AIRFLOW_CTX_{key}", "") for key in ("DAG_ID", "TASK_ID", "DAG_RUN_ID"))
    if not (dag and task and run):
        return {}
    attempt = environment.get("AIRFLOW_CTX_TRY_NUMBER", "")
    namespace = environment.get("AIRFLOW__OPENLINEAGE__NAMESPACE") or environment.get("OPENLINEAGE_NAMESPACE")
    return _parent(namespace, f"{dag}.{task}", ".".join(part for part in (run, dag, task, attempt) if part))


def _dagster(environment: Mapping[str, str]) -> Parent:
    return _parent("dagster", environment.get("DAGSTER_RUN_JOB_NAME"), environment.get("DAGSTER_RUN_ID"))


def _parent(namespace: str | None, name: str | None, run: str | None) -> Parent:
    return {"namespace": namespace or "default", "name": name, "run": run} if name and run else {}
