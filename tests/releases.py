"""Which release of Spark the tests run with, and what only newer ones have."""

from __future__ import annotations

from typing import Any

import pyspark
import pytest

RELEASE = tuple(int(part) for part in pyspark.__version__.split(".")[:2])


def has(release: str) -> bool:
    """Whether this is that release, or a newer one."""
    return tuple(map(int, release.split("."))) <= RELEASE


def since(release: str, what: str) -> pytest.MarkDecorator:
    """For a test of something that Spark has since this release."""
    return pytest.mark.skipif(not has(release), reason=f"Spark has {what} since {release}")


def case(release: str, what: str, *values: Any) -> Any:
    """The same for one case among the parameters of a test."""
    return pytest.param(*values, marks=since(release, what))
