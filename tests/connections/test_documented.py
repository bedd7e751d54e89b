"""The reference names every option with its default."""

import re
from dataclasses import fields
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast.domain.duration import compact
from holdfast.postgres.options import PoolOptions, PoolSettings

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "connection-options.md"


def _written(value: object) -> str:
    match value:
        case timedelta():
            return compact(value)
        case True:
            return "on"
        case _:
            return str(value)


@pytest.mark.requirement("S2.2")
def test_every_option_is_documented_with_its_default() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+?) \|", REFERENCE.read_text("utf-8"), re.MULTILINE)
    settings = PoolSettings()
    assert dict(rows) == {
        field.name: _written(getattr(settings, field.name)) for field in fields(PoolOptions)
    }
