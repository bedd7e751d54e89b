"""Migration files: how a folder is read, and which files are refused."""

from pathlib import Path

import pytest

from holdfast.errors import InvalidMigration
from holdfast.postgres.migrations.migration import read_migrations
from holdfast.postgres.migrations.steps import change
from holdfast.postgres.schema import Schema
from holdfast.storage.migrations import known_version, packaged
from migrations.migration_folders import folder, migrations


def read(path: Path, **files: str) -> list[str]:
    named = {f"{name.removeprefix('m')}.sql": text for name, text in files.items()}
    return [str(each) for each in read_migrations(folder(path, named))]


def test_a_folder_is_read_in_the_order_of_its_numbers_and_other_files_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "__init__.py").touch()
    (tmp_path / "README.md").touch()
    assert read(tmp_path, m0002_b="select 2;", m0001_a="select 1;") == ["0001_a", "0002_b"]


@pytest.mark.parametrize("name", ["1_a.sql", "0001.sql", "0001_A.sql", "0001-a.sql", "0001_a b.sql"])
def test_a_file_with_a_name_of_another_form_is_an_error_that_names_it(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidMigration, match="write NNNN_name") as caught:
        read_migrations(folder(tmp_path, {name: "select 1;"}))
    assert caught.value.file == name


def test_a_gap_is_an_error_that_names_the_file_after_it(tmp_path: Path) -> None:
    with pytest.raises(InvalidMigration, match=r"0003_c\.sql: the number 0002 is missing"):
        read(tmp_path, m0001_a="select 1;", m0003_c="select 3;")


def test_numbers_begin_at_one(tmp_path: Path) -> None:
    with pytest.raises(InvalidMigration, match=r"0000_a\.sql: the number 0001 is missing"):
        read(tmp_path, m0000_a="select 1;")


def test_two_files_with_one_number_are_an_error_that_names_both(tmp_path: Path) -> None:
    with pytest.raises(InvalidMigration, match=r"0001_b\.sql: 0001_a\.sql has the same number"):
        read(tmp_path, m0001_a="select 1;", m0001_b="select 1;")


@pytest.mark.parametrize("text", ["", "  \n", "-- only a comment\n", "/* a\n b */ ;\n"])
def test_a_file_without_a_statement_is_an_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidMigration, match=r"0001_a\.sql: holds no statement"):
        read(tmp_path, m0001_a=text)


def test_a_file_that_is_not_utf8_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "0001_a.sql").write_bytes(b"select '\xe9';")
    with pytest.raises(InvalidMigration, match="not UTF-8"):
        read_migrations(tmp_path)


@pytest.mark.parametrize("ending", ["commit;", "BEGIN;", "  rollback work ;", "start transaction;"])
def test_a_file_that_would_end_the_transaction_is_an_error(tmp_path: Path, ending: str) -> None:
    with pytest.raises(InvalidMigration, match="would break the one transaction"):
        read(tmp_path, m0001_a=f"select 1;\n{ending}\nselect 2;")


def test_blocks_of_code_and_comments_may_say_begin_and_commit(tmp_path: Path) -> None:
    text = "-- commit;\ndo $x$\nbegin\n commit;\nend\n$x$;\n"
    assert read(tmp_path, m0001_a=text) == ["0001_a"]


def test_min_code_is_inherited_until_an_opening_comment_raises_it(tmp_path: Path) -> None:
    read_them = migrations(
        tmp_path,
        "select 1;",
        "-- Why.\n\n-- min_code: 2\nselect 2;",
        "select 3;\n-- min_code: 3\n",  # not in the opening comment
        "--min_code:4\nselect 4;",
    )
    assert [each.min_code for each in read_them] == [1, 2, 2, 4]


@pytest.mark.parametrize("declared", ["0", "1", "4", "x", "", "-2", "3.0", "²"])
def test_min_code_neither_falls_nor_names_the_future(tmp_path: Path, declared: str) -> None:
    with pytest.raises(InvalidMigration, match=r"0003_step\.sql: min_code is .*: .* here 2 to 3"):
        migrations(tmp_path, "select 1;", "-- min_code: 2\nselect 2;", f"-- min_code: {declared}\nselect 3;")


def test_min_code_is_declared_once(tmp_path: Path) -> None:
    with pytest.raises(InvalidMigration, match="more than once"):
        migrations(tmp_path, "-- min_code: 1\n-- min_code: 1\nselect 1;")


def test_a_checksum_is_of_the_text_whatever_its_line_endings(tmp_path: Path) -> None:
    [unix] = migrations(tmp_path / "unix", "select 1;\nselect 2;\n")
    [windows] = migrations(tmp_path / "windows", "select 1;\r\nselect 2;\r\n")
    [other] = migrations(tmp_path / "other", "select 1;\nselect 3;\n")
    assert unix.checksum == windows.checksum != other.checksum


def test_braces_and_percent_signs_of_sql_are_left_alone(tmp_path: Path) -> None:
    [migration] = migrations(tmp_path, "insert into {schema}.t values ('{}', '{schema_name} %s 100%')")
    filled = change(Schema("jobs"), migration)
    assert filled == "insert into \"jobs\".t values ('{}', 'jobs %s 100%')\n;"


def test_the_packaged_migrations_can_be_read() -> None:
    assert known_version() == len(packaged()) > 0
