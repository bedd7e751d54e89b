"""The laws of `min_code`: which code may work with which database, for every history of migrations."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.domain.schema_version import SchemaVersion, judge
from holdfast.errors import CodeOutdated, SchemaError, SchemaOutdated
from holdfast.postgres.migrations.migration import Migration
from holdfast.postgres.migrations.standing import Applied, Standing
from holdfast.postgres.schema import Schema


@st.composite
def histories(draw: st.DrawFn) -> tuple[Migration, ...]:
    """Migrations whose `min_code` never falls and never names the future, as the files are checked for."""
    history: list[Migration] = []
    for version in range(1, draw(st.integers(1, 8)) + 1):
        lowest = history[-1].min_code if history else 1
        history.append(Migration(version, "step", f"select {version};", draw(st.integers(lowest, version))))
    return tuple(history)


def standing(history: tuple[Migration, ...], *, code: int, database: int) -> Standing:
    applied = tuple(Applied(m.version, m.name, m.checksum, m.min_code) for m in history[:database])
    return Standing(Schema(), history[:code], applied)


def is_accepted(history: tuple[Migration, ...], *, code: int, database: int) -> bool:
    try:
        standing(history, code=code, database=database).judge()
    except SchemaError:
        return False
    return True


def points(history: tuple[Migration, ...]) -> list[tuple[int, int]]:
    everything = range(len(history) + 1)
    return [(code, database) for code in everything for database in everything if code]


@pytest.mark.requirement("S2.6")
@given(histories())
def test_code_is_refused_exactly_below_min_code_or_ahead_of_it(
    history: tuple[Migration, ...],
) -> None:
    for code, database in points(history):
        min_code = history[database - 1].min_code if database else 0
        assert is_accepted(history, code=code, database=database) == (min_code <= code <= database)


@given(histories())
def test_after_migrating_the_new_code_and_any_code_at_min_code_work(history: tuple[Migration, ...]) -> None:
    newest = len(history)
    assert is_accepted(history, code=newest, database=newest)
    assert is_accepted(history, code=history[-1].min_code, database=newest)


@given(histories())
def test_code_that_a_migration_shut_out_is_never_let_in_again(history: tuple[Migration, ...]) -> None:
    for code in range(1, len(history) + 1):
        lived = [is_accepted(history, code=code, database=at) for at in range(code, len(history) + 1)]
        assert lived == sorted(lived, reverse=True)


@given(histories(), st.data())
def test_the_error_says_which_side_has_to_move(history: tuple[Migration, ...], data: st.DataObject) -> None:
    code, database = data.draw(st.sampled_from(points(history)))
    stands = standing(history, code=code, database=database)
    if stands.pending:
        with pytest.raises(SchemaOutdated) as schema_outdated:
            stands.judge()
        assert (schema_outdated.value.found, schema_outdated.value.needed) == (database, code)
    elif stands.found.min_code > code:
        with pytest.raises(CodeOutdated) as code_outdated:
            stands.judge()
        assert (code_outdated.value.found, code_outdated.value.needed) == (code, stands.found.min_code)


def test_a_database_that_was_never_touched_is_outdated_not_unknown() -> None:
    with pytest.raises(
        SchemaOutdated, match='"jobs" has not been created, this release needs 2: run "holdfast'
    ):
        judge(SchemaVersion(0, 0), known=2, schema="jobs")


@pytest.mark.parametrize(("version", "min_code"), [(1, 2), (-1, -1), (0, -1)])
def test_a_version_that_no_database_can_have_is_not_made(version: int, min_code: int) -> None:
    with pytest.raises(ValueError, match="cannot need code"):
        SchemaVersion(version, min_code)
