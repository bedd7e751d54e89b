"""docs/how-to/testing.md is a project: its files are written as they stand, and its tests are run."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.doc_examples import DOCS

PAGE = (DOCS / "how-to/testing.md").read_text("utf-8")


@pytest.mark.machine  # starts several interpreters
def test_the_tests_of_the_page_pass(tmp_path: Path) -> None:
    files = re.findall(r"```python\n# (\S+)\n(.*?)```", PAGE, re.DOTALL)
    assert [name for name, _ in files] == ["shop.py", "conftest.py", "test_shop.py"]
    assert PAGE.count("```python") == len(files)
    for name, text in files:
        (tmp_path / name).write_text(text, "utf-8")
    known = {
        name: value for name, value in os.environ.items() if not name.startswith(("HOLDFAST_DSN", "PYTEST"))
    }
    ran = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-W",
            "error",
            "-p",
            "no:asyncio",
            "-p",
            "no:cacheprovider",
            "--rootdir",
            ".",
        ],
        cwd=tmp_path,
        env={**known, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "5 passed" in ran.stdout
