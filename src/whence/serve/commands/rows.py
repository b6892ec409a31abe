"""`whence trace`, `forward`, `why-not` and `explain`: questions about rows, answered by a Spark of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from whence.model import WhenceError
from whence.serve.commands.options import JsonOption, NamespaceOption, StoreOption, put_json, put_table

if TYPE_CHECKING:
    from whence import Session

NameArgument = Annotated[str, typer.Argument(help="Any name that the dataset goes by.")]
WhereOption = Annotated[str | None, typer.Option(help="Which of its rows: a SQL condition on its columns.")]
ToOption = Annotated[str, typer.Option(help="The dataset, such as a view, that the rows may have reached.")]
ToNamespaceOption = Annotated[str | None, typer.Option(help="The namespace of that one.")]
ConfOption = Annotated[list[str] | None, typer.Option("--conf", help="A setting of Spark: key=value; any number.")]
LimitOption = Annotated[int, typer.Option(min=1, max=1000, help="Rows of each source that are kept.")]
SaveOption = Annotated[str | None, typer.Option("--as", help="A name for the trace, which is saved in the store.")]


def trace(
    name: NameArgument,
    where: WhereOption = None,
    namespace: NamespaceOption = None,
    limit: LimitOption = 1000,
    save_as: SaveOption = None,
    conf: ConfOption = None,
    as_json: JsonOption = False,
    store: StoreOption = None,
) -> None:
    """Trace rows of a dataset back to the rows that made them."""
    _ask("backward", name, namespace, where, None, limit, save_as, conf, as_json, store)


def forward(
    name: NameArgument,
    to: ToOption,
    where: WhereOption = None,
    namespace: NamespaceOption = None,
    to_namespace: ToNamespaceOption = None,
    limit: LimitOption = 1000,
    save_as: SaveOption = None,
    conf: ConfOption = None,
    as_json: JsonOption = False,
    store: StoreOption = None,
) -> None:
    """Find the rows of another dataset that rows of this one touch."""
    _ask("forward", name, namespace, where, (to_namespace, to), limit, save_as, conf, as_json, store)


def why_not(
    name: NameArgument,
    to: ToOption,
    where: WhereOption = None,
    namespace: NamespaceOption = None,
    to_namespace: ToNamespaceOption = None,
    limit: LimitOption = 1000,
    save_as: SaveOption = None,
    conf: ConfOption = None,
    as_json: JsonOption = False,
    store: StoreOption = None,
) -> None:
    """Say where rows of a dataset dropped out on their way into another."""
    _ask("why_not", name, namespace, where, (to_namespace, to), limit, save_as, conf, as_json, store)


def explain(
    name: NameArgument,
    where: Annotated[str, typer.Option(help="The bad rows: a SQL condition on its columns.")],
    namespace: NamespaceOption = None,
    conf: ConfOption = None,
    as_json: JsonOption = False,
    store: StoreOption = None,
) -> None:
    """Find conditions on columns that set some rows of a dataset apart from the others."""
    with _session(store, conf) as session:
        from whence.debug.questions import frame_of
        from whence.model.conditions import check_condition
        from whence.serve.view import Service

        view = Service(session._store).view()
        known = view.known(view.find(namespace, name))
        frame = frame_of(session.spark, session.catalog, known.namespace, known.name)
        bad = check_condition(where)
        found = session.explain(frame.where(bad), frame.where(f"NOT coalesce(({bad}), false)"))
        if as_json:
            put_json({"text": str(found)})
        else:
            print(found)


def _ask(
    question: str,
    name: str,
    namespace: str | None,
    where: str | None,
    to: tuple[str | None, str] | None,
    limit: int,
    save_as: str | None,
    conf: list[str] | None,
    as_json: bool,
    store: str | None,
) -> None:
    with _session(store, conf) as session:
        from whence.debug.questions import answer
        from whence.model.picture import Question
        from whence.serve.answers.traces import rows, trace
        from whence.serve.view import Service

        service = Service(session._store)
        view = service.view()
        known = view.known(view.find(namespace, name))
        target = None if to is None else view.known(view.find(*to))
        other = None if target is None else (target.namespace, target.name)
        asked = Question(question, known.namespace, known.name, where, other, limit)
        picture = answer(session, session.catalog, asked)
        number = session.catalog.traces.save(picture, save_as, asked)
        found = trace(service.view(), number)
        if as_json:
            put_json(found)
            return
        for step in found["steps"]:
            print(f"{'  ' * step['depth']}{step['operator']}: {step['text']}  ({step['rows']} rows)")
        for source in found["sources"]:
            print(f"\n{source['dataset']['name']}: {source['rows']} rows")
            page = rows(view, number, source["number"], 20)
            put_table([c["name"] for c in page["columns"]], page["items"], "")
        print("\nexact" if found["exact"] else "\nNOT exact")
        for note in found["notes"]:
            print(f"- {note}")
        print(f"saved as {number}")


@contextmanager
def _session(store: str | None, conf: list[str] | None) -> Iterator[Session]:
    from whence.serve.java import provide

    settings: dict[str, Any] = {}
    for one in conf or ():
        key, equals, value = one.partition("=")
        if not equals:
            raise typer.BadParameter(f"{one!r} is not key=value.", param_hint="--conf")
        settings[key] = value
    provide()
    from pyspark.sql import SparkSession

    import whence

    builder = SparkSession.builder.appName("whence")
    for key, value in {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", **settings}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    try:
        with whence.attach(spark, store) as session:
            yield session
    except WhenceError:
        raise
    except Exception as error:
        raise WhenceError(f"Spark could not answer: {str(error).strip().splitlines()[0]}") from error
    finally:
        spark.stop()
