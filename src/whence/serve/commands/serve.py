"""`whence serve`."""

from __future__ import annotations

import sys
from enum import Enum
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from whence.model import WhenceError
from whence.serve.commands.options import StoreOption

_NEEDED = ("fastapi", "uvicorn", "orjson", "jwt", "prometheus_client")


class Auth(str, Enum):
    none = "none"
    token = "token"


def serve(
    store: StoreOption = None,
    host: Annotated[str, typer.Option(help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes any that is free.")] = 8420,
    auth: Annotated[
        Auth, typer.Option(help="'none': this machine only, no questions asked; 'token': see `whence token create`.")
    ] = Auth.none,
    access: Annotated[
        Path | None, typer.Option(help="YAML file of policies and OIDC (docs/serve.md); implies --auth token.")
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(min=0, help="Requests a second for each caller; 0 is off. Default: 0 on this machine, else 50."),
    ] = None,
) -> None:
    """Serve the catalogue: a REST API and a page."""
    from whence.serve.rights.access import Access, is_loopback, read_access

    if access is not None:
        auth = Auth.token
    local = is_loopback(host)
    if not local and auth is Auth.none:
        print(
            f"whence: --host {host} can be reached by others, and --auth none lets everybody in. Add --auth token "
            "(`whence token create NAME --role reader` makes a token), or stay at --host 127.0.0.1.",
            file=sys.stderr,
        )
        raise typer.Exit(2)
    try:
        rights = Access() if access is None else read_access(access)
    except WhenceError as error:
        print(f"whence: {error}", file=sys.stderr)
        raise typer.Exit(2) from error
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        print(
            f"whence: the server needs more packages: pip install 'whence[serve]' ({missing[0]} is not installed)",
            file=sys.stderr,
        )
        raise typer.Exit(1)
    from whence.serve.opening import Opening, look
    from whence.serve.server import serve as run
    from whence.store import Store
    from whence.store.frugal import be_frugal

    be_frugal()
    opened = Store.at(store)
    if opened.location.remote is not None:
        print(
            f"whence: a server over {opened.location} needs a database for its catalogue, its tokens and the questions "
            f"that are posted: give postgresql://user:password@host/database?tables={opened.location} as the store.",
            file=sys.stderr,
        )
        raise typer.Exit(2)
    opened.cache_megabytes = 2
    look(opened.location)

    def make() -> Any:
        from whence.serve.api import create_app
        from whence.serve.api.gate import Settings
        from whence.serve.view import Service

        oidc = None
        if rights.oidc is not None:
            from whence.serve.rights.oidc import Oidc

            oidc = Oidc(rights.oidc)
        settings = Settings(auth.value, (0 if local else 50) if rate is None else rate, oidc)
        return create_app(Service(opened, rights.policies), settings)

    code = run(Opening(opened.location, make), host, port, str(opened.location))
    if code:
        raise typer.Exit(code)
