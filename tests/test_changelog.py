import re
from pathlib import Path

import whence

CHANGELOG = Path(__file__).resolve().parent.parent / "CHANGELOG.md"


def test_newest_version_is_the_packages() -> None:
    versions = re.findall(r"^## (\S+)", CHANGELOG.read_text(), re.MULTILINE)
    assert versions[0] == whence.__version__
    assert len(set(versions)) == len(versions)


def test_every_version_has_a_date_or_is_unreleased() -> None:
    for heading in re.findall(r"^## .*$", CHANGELOG.read_text(), re.MULTILINE):
        assert re.fullmatch(r"## \S+ \((unreleased|\d{4}-\d{2}-\d{2})\)", heading), heading
