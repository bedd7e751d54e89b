"""`holdfast init`: what it writes, where it writes nothing, and that what it writes works."""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from holdfast.cli import main
from holdfast.cli.init import module_name

ROOT = Path(__file__).parents[2]
FILES = ["README.md", "enqueue.py", "shop.py", "test_shop.py"]
Captured = pytest.CaptureFixture[str]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def listed(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def run(*command: str, cwd: Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    known = {name: value for name, value in os.environ.items() if not name.startswith(("HOLDFAST", "PYTEST"))}
    return subprocess.run(
        [sys.executable, *command],
        cwd=cwd,
        env={**known, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_project_is_written_into_a_new_directory_and_the_next_commands_are_shown(
    here: Path, capsys: Captured
) -> None:
    assert main(["init", "some/shop"]) == 0
    assert listed(here / "some/shop") == FILES
    out, err = capsys.readouterr()
    assert err == ""
    assert [line for line in out.splitlines() if line.startswith("wrote ")] == [
        f"wrote some/shop/{name}" for name in FILES
    ]
    commands = [line.partition("#")[0].strip() for line in out.splitlines() if line.startswith("    ")]
    assert commands == [
        "cd some/shop",
        "holdfast dev -A shop:app",
        f"export HOLDFAST_DSN=embedded:{here.resolve()}/some/shop/.holdfast",
        "python enqueue.py",
        "holdfast jobs list",
    ]


def test_without_a_directory_it_is_written_here_beside_what_is_there(here: Path, capsys: Captured) -> None:
    (here / "shop").mkdir()
    (here / "shop/notes.txt").write_text("mine", "utf-8")
    os.chdir(here / "shop")
    assert main(["init"]) == 0
    assert listed(here / "shop") == sorted([*FILES, "notes.txt"])
    assert "    cd " not in capsys.readouterr().out


@pytest.mark.parametrize("taken", [["shop.py"], ["README.md", "enqueue.py"]])
def test_nothing_is_overwritten_and_what_exists_is_named(
    here: Path, taken: list[str], capsys: Captured
) -> None:
    (here / "shop").mkdir()
    for name in taken:
        (here / "shop" / name).write_text("mine", "utf-8")
    assert main(["init", "shop"]) == 1
    assert f"shop has {', '.join(taken)} already: nothing was written" in capsys.readouterr().err
    assert listed(here / "shop") == sorted(taken)
    assert {(here / "shop" / name).read_text("utf-8") for name in taken} == {"mine"}


def test_a_link_that_leads_nowhere_is_not_written_through(here: Path, capsys: Captured) -> None:
    (here / "shop").mkdir()
    (here / "shop/shop.py").symlink_to(here / "elsewhere.py")
    assert main(["init", "shop"]) == 1
    assert not (here / "elsewhere.py").exists()


def test_a_second_time_is_refused(here: Path, capsys: Captured) -> None:
    assert main(["init", "shop"]) == 0
    (here / "shop/shop.py").write_text("mine", "utf-8")
    assert main(["init", "shop"]) == 1
    assert f"shop has {', '.join(FILES)} already" in capsys.readouterr().err
    assert (here / "shop/shop.py").read_text("utf-8") == "mine"


def test_a_file_in_the_place_of_the_directory_is_told(here: Path, capsys: Captured) -> None:
    (here / "shop").write_text("mine", "utf-8")
    assert main(["init", "shop"]) == 1
    assert "shop cannot take the project, and nothing was written: " in capsys.readouterr().err
    assert (here / "shop").read_text("utf-8") == "mine"


AS_ANOTHER_USER = """
import os, sys
from holdfast.cli import command_group, init  # while it can be read
if os.geteuid() == 0:  # who may write everywhere
    os.setuid(65534)
init._templates = lambda: {"shop.py": ""}  # they may be out of reach for that user
sys.exit(command_group.main(["init", "shop"]))
"""


def test_a_directory_that_may_not_be_written_is_told() -> None:
    with TemporaryDirectory() as name:
        closed = Path(name)
        closed.chmod(0o555)
        told = run("-c", AS_ANOTHER_USER, cwd=closed)
        assert told.returncode == 1
        assert told.stderr == (
            "holdfast: shop cannot take the project, and nothing was written: Permission denied\n"
        )
        assert listed(closed) == []


def test_what_was_written_before_an_error_is_taken_back(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """A file appears between the look and the write."""
    monkeypatch.setattr("holdfast.cli.init._check", lambda *_: None)
    (here / "shop").mkdir()
    (here / "shop/test_shop.py").write_text("mine", "utf-8")
    assert main(["init", "shop"]) == 1
    assert "nothing was written: File exists" in capsys.readouterr().err
    assert listed(here / "shop") == ["test_shop.py"]
    assert (here / "shop/test_shop.py").read_text("utf-8") == "mine"


@pytest.mark.parametrize(
    ("directory", "name"),
    [
        ("shop", "shop"),
        ("billing", "billing"),
        ("my-shop", "my_shop"),
        ("My Shop 2.0", "my_shop_2_0"),
        ("class", "shop"),
        ("json", "shop"),
        ("holdfast", "shop"),
        ("pytest", "shop"),
        ("enqueue", "shop"),
        ("2026", "shop"),
        ("日本", "shop"),
        ("/", "shop"),
    ],
)
def test_the_module_is_named_after_the_directory_if_python_can_import_that(
    here: Path, directory: str, name: str
) -> None:
    assert module_name(Path(directory)) == name


def test_a_project_of_another_name_calls_its_module_so_everywhere(here: Path) -> None:
    assert main(["init", "my-store"]) == 0
    assert listed(here / "my-store") == ["README.md", "enqueue.py", "my_store.py", "test_my_store.py"]
    for path in (here / "my-store").iterdir():
        assert not re.search(r"\bshop\b|test_shop", path.read_text("utf-8"))


@pytest.mark.machine  # starts a server, ruff and mypy
def test_the_project_passes_its_own_tests_a_linter_and_a_type_checker(here: Path) -> None:
    """Under another name than that of the templates."""
    assert main(["init", "my-store"]) == 0
    project = here / "my-store"
    rules = "A,ANN,ASYNC,B,C4,E,F,I,N,PL,PT,PTH,RUF,SIM,UP,W"
    for command in (
        (
            "ruff",
            "check",
            "--isolated",
            "--line-length",
            "110",
            "--select",
            rules,
            "--ignore",
            "PLR2004",
            ".",
        ),
        ("ruff", "format", "--isolated", "--check", "."),
        ("mypy", "--strict", "--cache-dir", str(here / "cache"), "."),
    ):
        done = run("-m", *command, cwd=project)
        assert done.returncode == 0, done.stdout + done.stderr
    options = ("-q", "-W", "error", "-p", "no:asyncio", "-p", "no:cacheprovider", "--rootdir", ".")
    tested = run("-m", "pytest", *options, cwd=project)
    assert tested.returncode == 0, tested.stdout + tested.stderr
    assert "3 passed" in tested.stdout


def test_the_readme_of_the_project_says_what_the_command_says(here: Path, capsys: Captured) -> None:
    assert main(["init", "shop"]) == 0
    said = {
        line.partition("#")[0].strip() for line in capsys.readouterr().out.splitlines() if line[:4] == "    "
    }
    readme = (here / "shop/README.md").read_text("utf-8")
    private = f"export HOLDFAST_DSN=embedded:{here.resolve()}/shop/.holdfast"  # as $PWD gives it there
    assert said - {line.strip() for line in readme.splitlines()} == {"cd shop", private}
    assert '    export HOLDFAST_DSN="embedded:$PWD/.holdfast"\n' in readme


@pytest.mark.machine  # builds a wheel
def test_a_built_wheel_has_the_templates(tmp_path: Path) -> None:
    built = run("-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path), cwd=ROOT)
    assert built.returncode == 0, built.stderr
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {Path(name).name for name in archive.namelist() if "/project_template/" in name}
    assert names == {f"{name}.txt" for name in FILES}
