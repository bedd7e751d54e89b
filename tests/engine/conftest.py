"""How long Hypothesis drives the engine: `engine` by default, `--hypothesis-profile=deep` for a long look."""

from hypothesis import HealthCheck, settings

# A step costs some statements, so time says nothing about a strategy, and a failure must be told in full.
_COMMON = settings(
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
settings.register_profile("engine", _COMMON, max_examples=180, stateful_step_count=40)
settings.register_profile("deep", _COMMON, max_examples=1_200, stateful_step_count=80)
