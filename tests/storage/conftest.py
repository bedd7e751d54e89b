"""The engine on a fresh database; and how long Hypothesis drives it: `engine` by default,
`--hypothesis-profile=deep` for a long look.
"""

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from support.engine import Engine

# The machine is shared: how long one example takes says nothing. A failure must be told in full.
_UNHURRIED = settings(deadline=None, print_blob=True)
settings.register_profile("unhurried", _UNHURRIED)
settings.load_profile("unhurried")

_DRIVEN = settings(_UNHURRIED, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
settings.register_profile("engine", _DRIVEN, max_examples=120, stateful_step_count=40)
settings.register_profile("deep", _DRIVEN, max_examples=1_000, stateful_step_count=80)


@pytest.fixture
def engine(dsn: str) -> Iterator[Engine]:
    with Engine.on(dsn) as engine:
        yield engine
