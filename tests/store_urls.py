from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

import postgres_server


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    if postgres_server.find_initdb() is None:
        pytest.skip("no PostgreSQL here: initdb was not found (Debian: apt install postgresql)")
    with postgres_server.postgres_server() as url:
        yield url


@pytest.fixture
def new_database(postgres: str) -> str:
    """The URL of a fresh database in the one server."""
    import psycopg

    name = f"t{uuid.uuid4().hex}"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return postgres.rpartition("/")[0] + "/" + name


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "store")
    return f"{request.getfixturevalue('new_database')}?tables={tmp_path / 'tables'}"
