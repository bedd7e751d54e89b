"""Lines of the log: whatever is in them, they can be written to a file."""

import json
import logging

import pytest

from holdfast.telemetry.log import JsonFormatter, say

HALF = "half a pair: \ud83d"


def test_a_line_with_half_a_surrogate_pair_can_be_written(caplog: pytest.LogCaptureFixture) -> None:
    say(logging.getLogger("holdfast.worker"), logging.WARNING, "attempt failed", job=7, error=HALF)
    [record] = caplog.records
    assert record.getMessage().encode() == b'attempt failed: job=7 error="half a pair: \\\\ud83d"'
    line = JsonFormatter().format(record).encode()
    assert json.loads(line)["error"] == HALF
