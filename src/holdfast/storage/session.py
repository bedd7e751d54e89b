"""What our own connections tell the planner. Tables that are filled and emptied all day have statistics
that are always wrong; these settings leave only the plans that the statements were written for.
"""

from holdfast.postgres.statement import Statement

SETTINGS = {
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_sort": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_material": "off",
    "jit": "off",
    "plan_cache_mode": "force_generic_plan",
}


def plan_as_written(*, is_local: bool = False) -> Statement[tuple[object, ...]]:
    """Apply the settings: for the session, or behind a transaction pooler for this transaction only."""
    calls = ", ".join(
        f"set_config('{name}', '{value}', %(is_local)s::boolean)" for name, value in SETTINGS.items()
    )
    return Statement("plan_as_written", f"select {calls}", {"is_local": is_local}, _row)


def _row(*columns: object) -> tuple[object, ...]:
    return columns
