"""`whence token`."""

from __future__ import annotations

import re
from datetime import timedelta
from enum import Enum
from typing import Annotated, Any

import typer

from whence.serve.commands.options import JsonOption, StoreOption, at, opened, put_json, put_table

app = typer.Typer(
    help="Make, list and revoke the tokens that the server accepts.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)
_UNITS = {"d": "days", "h": "hours", "m": "minutes", "s": "seconds"}


class Role(str, Enum):
    reader = "reader"
    editor = "editor"
    admin = "admin"


@app.command("create")
def create(
    name: Annotated[str, typer.Argument(help="Who will use it; policies speak of this name.")],
    role: Annotated[Role, typer.Option(help="reader: reads; editor: also writes; admin: sees and may do everything.")],
    expires: Annotated[
        str | None, typer.Option(help="How long it is valid: 30d, 12h, 10m, 5s; default: always.")
    ] = None,
    as_json: JsonOption = False,
    store: StoreOption = None,
) -> None:
    """Make a token. It is printed once, and cannot be read again."""
    lasting = None if expires is None else _lasting(expires)
    with opened(store) as view:
        made, text = view.catalog.tokens.create(name, role.value, lasting)
        view.catalog.audit.add("local", "token create", 200, name)
    if as_json:
        put_json({"name": made.name, "role": made.role, "expires": made.expires, "token": text})
    else:
        print(text)


@app.command("list")
def list_tokens(as_json: JsonOption = False, store: StoreOption = None) -> None:
    """List the tokens, without what they are."""
    with opened(store) as view:
        found = view.catalog.tokens.list()
    items: list[dict[str, Any]] = [
        {"name": t.name, "role": t.role, "created": t.created, "expires": t.expires, "revoked": t.revoked}
        for t in found
    ]
    if as_json:
        put_json({"items": items, "next": None})
        return
    rows = [[t.name, t.role, at(t.created), at(t.expires), at(t.revoked)] for t in found]
    put_table(["name", "role", "created", "expires", "revoked"], rows, "There are no tokens.")


@app.command("revoke")
def revoke(name: Annotated[str, typer.Argument(help="As it was made.")], store: StoreOption = None) -> None:
    """Revoke a token: from now on it is worth nothing."""
    with opened(store) as view:
        view.catalog.tokens.revoke(name)
        view.catalog.audit.add("local", "token revoke", 200, name)
    print(f"The token {name} is revoked.")


def _lasting(text: str) -> timedelta:
    found = re.fullmatch(r"([1-9][0-9]{0,8})([dhms])", text)
    if found is None:
        raise typer.BadParameter(f"{text!r} is no length of time: give 30d, 12h, 10m or 5s.", param_hint="--expires")
    try:
        lasting = timedelta(**{_UNITS[found[2]]: int(found[1])})
        if lasting > timedelta(days=36_500):
            raise OverflowError
    except OverflowError as error:
        raise typer.BadParameter(f"{text!r} is too long.", param_hint="--expires") from error
    return lasting
