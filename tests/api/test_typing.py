"""The signature of a function is kept through its decorator: wrong calls fail before they run."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("wrong_calls.py.txt").read_text("utf-8")
REFUSED = {number for number, line in enumerate(SOURCE.splitlines(), 1) if line.endswith("# REFUSED")}


@pytest.fixture
def calls(tmp_path: Path) -> Path:
    file = tmp_path / "calls.py"
    file.write_text(SOURCE)
    return file


@pytest.mark.machine  # mypy reads all of the package
@pytest.mark.timeout(300)
def test_mypy_refuses_the_wrong_calls_and_no_others(calls: Path) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--strict",
            "--no-error-summary",
            "--output=json",
            "--cache-dir",
            calls.parent,
            calls,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    ours = {
        problem["line"]
        for problem in found
        if problem["file"].endswith("calls.py") and problem["severity"] == "error"
    }
    assert ours == REFUSED, done.stdout + done.stderr


@pytest.mark.machine  # pyright fetches its own code with npm at its first run
@pytest.mark.timeout(300)
def test_pyright_refuses_the_wrong_calls_and_no_others(calls: Path) -> None:
    settings = {"typeCheckingMode": "strict", "pythonVersion": "3.11"}
    (calls.parent / "pyrightconfig.json").write_text(json.dumps(settings))
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pyright",
            "--outputjson",
            "--pythonpath",
            sys.executable,
            "--project",
            calls.parent,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    found = json.loads(done.stdout)["generalDiagnostics"]
    lines = {problem["range"]["start"]["line"] + 1 for problem in found if problem["severity"] == "error"}
    assert lines == REFUSED, done.stdout + done.stderr
