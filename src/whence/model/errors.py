"""Errors are sentences for the user: what was asked, what is wrong, what to do."""

from whence.model.text import visible


class WhenceError(Exception):
    """Base of every error that whence raises on its own account."""

    def __str__(self) -> str:
        return visible(super().__str__(), lines=True)


class SessionClosed(WhenceError):
    def __init__(self) -> None:
        super().__init__("This whence session is closed. Call whence.attach(spark) for a new one.")


class ConnectUnsupported(WhenceError):
    """Asked of a session of Spark Connect: `what` was, and `why` that needs the JVM, which is out of reach there."""

    def __init__(self, what: str, why: str) -> None:
        super().__init__(
            f"{what} needs a classic Spark session, and this is one of Spark Connect: {why}. Start a classic session "
            "(SparkSession.builder.master(...), without .remote(...) and with spark.api.mode=classic) and attach to "
            "that. With Spark Connect the catalogue, explain, actors and arrays in this process work."
        )


class NoSession(WhenceError):
    """What was given to attach is no Spark session."""


class UnknownSpark(WhenceError):
    """A release of Spark whose private classes whence has not been tried with."""

    def __init__(self, version: str, known: list[str], *, newer: bool) -> None:
        self.version = version
        what_to_do = (
            "Upgrade whence (pip install -U whence), or run this job with one of these releases of PySpark."
            if newer
            else "Run this job with one of these releases of PySpark."
        )
        super().__init__(
            f"This session runs Spark {version}, which whence does not know: it reads Spark's private classes, and "
            f"is tried with {', '.join(known[:-1])} and {known[-1]}. {what_to_do}"
        )


class ForeignDataFrame(WhenceError):
    """The DataFrame belongs to another Spark application or to none."""


class UnsupportedOperator(WhenceError):
    """An operator without a lineage rule. `operator` names it, `place` shows where it stands in the query."""

    def __init__(self, operator: str, place: str, reason: str = "whence has no lineage rule for it") -> None:
        self.operator = operator
        self.place = place
        super().__init__(f"Cannot trace through {operator}: {reason}.\nIt stands here in the query:\n{place}")


class NonDeterministic(WhenceError):
    """The query may give other rows when it is evaluated again, so its lineage cannot be worked out afterwards."""


class SourceChanged(WhenceError):
    """A source was changed, replaced or removed since the DataFrame was made. `path` names the file or table."""

    def __init__(self, path: str, what: str) -> None:
        self.path = path
        super().__init__(
            f"The source {path} {what} since this DataFrame was made, so its rows can no longer be told. "
            "Read the source again and ask the new DataFrame."
        )


class StoreError(WhenceError):
    """The store cannot be opened, read or written."""


class StoreTooNew(StoreError):
    """The store was written by a newer version of whence."""


class UnknownDataset(WhenceError):
    """The catalogue has no dataset of this name, or more than one."""
