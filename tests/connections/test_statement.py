"""Statement files: the contract on top, parameters by name, and names that are safe inside SQL."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidSchemaName
from holdfast.postgres.schema import Schema
from holdfast.postgres.statement import Statement, StatementFile

SOURCE = """\
-- Count up to %(limit)s things.
-- Locks nothing.
select count(*) from {schema}.thing
 where name like 'a%%' and kind = %(kind)s::text  -- same kind twice
   and other = %(kind)s::text limit %(limit)s::int;
"""


@pytest.fixture
def counting(tmp_path: Path) -> StatementFile[int]:
    (tmp_path / "count_things.sql").write_text(SOURCE)
    return StatementFile.read(tmp_path, "count_things", int)


def test_the_contract_is_the_opening_comment_and_is_not_sent(counting: StatementFile[int]) -> None:
    assert counting.contract == "Count up to %(limit)s things.\nLocks nothing.\n"
    text = counting.text(Schema())
    assert text.startswith('/* holdfast.count_things */ select count(*) from "holdfast".thing')
    assert "Locks" not in text
    assert not text.endswith(";")


def test_a_numbered_statement_names_each_parameter_once(counting: StatementFile[int]) -> None:
    text, values = counting.with_params(Schema("jobs"), limit=5, kind="mail").numbered()
    assert "like 'a%'" in text
    assert "kind = $1::text" in text
    assert "other = $1::text limit $2::int" in text
    assert values == ("mail", 5)


def test_a_missing_parameter_is_an_error_before_anything_is_sent() -> None:
    with pytest.raises(KeyError, match="kind"):
        Statement("x", "select %(kind)s::text", {}, str).numbered()


@pytest.mark.parametrize("name", ["", "Holdfast", "1a", "a-b", 'a"b', "a b", "pg_jobs", "a" * 41, "a\0", "æ"])
def test_a_name_that_needs_care_inside_sql_is_refused(name: str) -> None:
    with pytest.raises(InvalidSchemaName, match="use 1 to 40"):
        Schema(name)


@given(st.text(max_size=50))
def test_whatever_is_accepted_is_one_plain_identifier(name: str) -> None:
    try:
        schema = Schema(name)
    except InvalidSchemaName:
        return
    assert schema.quoted == f'"{name}"'
    assert name.replace("_", "a").isalnum()
    assert name.isascii()
