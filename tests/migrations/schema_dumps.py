"""What a schema looks like from outside, as text to compare."""

import subprocess
import sys
from pathlib import Path

from holdfast.postgres.schema import Schema

ROOT = Path(__file__).parent.parent.parent
SNAPSHOT = ROOT / "docs/reference/schema.sql"
COMMAND = ".venv/bin/python scripts/schema-snapshot"


def dump(dsn: str, schema: Schema) -> str:
    script = ROOT / "scripts/schema-snapshot"
    answer = subprocess.run(
        [sys.executable, script, "--of", dsn, "--schema", schema.name],
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout
