"""`whence store`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from whence.serve.commands.options import JsonOption, StoreOption, put_json

app = typer.Typer(
    help="Look at a store and look after it.", no_args_is_help=True, rich_markup_mode=None, add_completion=False
)
_TABLES = ("datasets", "runs", "versions", "edges", "mapping_columns", "traces", "diagnoses", "tokens", "audit")


@app.command("info")
def info(as_json: JsonOption = False, store: StoreOption = None) -> None:
    """Say where a store is, which version it has, and how much is in it."""
    import sqlalchemy as sa

    from whence.store import Store
    from whence.store.location import DATABASE_FILE
    from whence.store.schema import metadata
    from whence.store.version import HEAD

    held = Store.at(store)
    try:
        with held.catalog.reading() as connection:
            counts = {
                name: int(
                    connection.execute(sa.select(sa.func.count()).select_from(metadata.tables[name])).scalar_one()
                )
                for name in _TABLES
            }
        directory = held.location.directory
        size = None if directory is None else (directory / DATABASE_FILE).stat().st_size
        found: dict[str, Any] = {"store": str(held.location), "version": HEAD, "bytes": size, **counts}
    finally:
        held.close()
    if as_json:
        put_json(found)
        return
    for name, value in found.items():
        if value is not None:
            print(f"{name.replace('_', ' '):16} {value}")


@app.command("vacuum")
def vacuum(
    audit_days: Annotated[
        int | None, typer.Option(min=0, help="Also forget what the audit holds that is older than so many days.")
    ] = None,
    store: StoreOption = None,
) -> None:
    """Give back the space that a store no longer needs, and let its database know its own sizes."""
    from whence.store import Store

    held = Store.at(store)
    try:
        held.catalog.vacuum(audit_days)
    finally:
        held.close()
    print(f"The store {held.location} is vacuumed.")


@app.command("migrate")
def migrate(store: StoreOption = None) -> None:
    """Bring a store of an older whence up to date. Every command that opens one does the same."""
    from whence.store import Store
    from whence.store.version import HEAD

    held = Store.at(store)
    try:
        _ = held.catalog
    finally:
        held.close()
    print(f"The store {held.location} has version {HEAD}.")
