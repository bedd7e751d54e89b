"""The engine on a fresh database; and how long Hypothesis drives it: `glance` and, in the machine tests,
`engine`; `--hypothesis-profile=deep` for a long look.
"""

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from support.engine import Engine

_DRIVEN = settings(
    settings.get_profile("unhurried"),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("glance", _DRIVEN, max_examples=40, stateful_step_count=40)
settings.register_profile("engine", _DRIVEN, max_examples=120, stateful_step_count=40)
settings.register_profile("deep", _DRIVEN, max_examples=1_000, stateful_step_count=80)


@pytest.fixture
def engine(dsn: str) -> Iterator[Engine]:
    with Engine.on(dsn) as engine:
        yield engine
