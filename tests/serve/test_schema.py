"""The description of the API is true: generated requests get what it says they get."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    positive_data_acceptance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)
from served import fill, whence_serve

from whence.store import Store

CHECKS = [
    schemathesis.checks.not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
    unsupported_method,
]


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    home = tmp_path_factory.mktemp("schema")
    store = Store.at(home)
    fill(store.catalog)
    store.close()
    with whence_serve("--store", str(home)) as server:
        yield schemathesis.openapi.from_url(f"{server.url}/openapi.json")


schema = schemathesis.pytest.from_fixture("described")


@schema.parametrize()
@settings(
    max_examples=12, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck), derandomize=True
)
def test_the_description_is_true(case: schemathesis.Case) -> None:
    response = case.call()
    # a cursor that matches its description may still not be one that was given
    has_cursor = bool(case.query and "cursor" in case.query)
    more = [] if has_cursor else [positive_data_acceptance]
    case.validate_response(response, checks=[*CHECKS, *more])
