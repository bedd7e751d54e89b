"""A job with limits that comes to ready without its permits would run beyond them. So every statement that
puts a row into ready asks for the limits of its job, or takes over the place that the row had.
"""

import re

import pytest

from storage.every_statement import KNOWN, NAMES

_INTO_READY = re.compile(r"insert into \{schema\}\.ready(?:_\w+)?\b")
_ENTRY = re.compile(r"insert into \{schema\}\.ready(?:_\w+)?\s*\([^)]*\)(.*?)(?=insert into|\Z)", re.DOTALL)

# Who inserts without a look at limits, and why nobody gets past the gate by it.
MAY = {
    "enqueue_one": "storage/jobs.py sends only jobs without limits here",
    "enqueue_alike": "storage/jobs.py sends only jobs without limits here",
    "enqueue": "storage/jobs.py sends only jobs without limits here",
    "ring_gather": "moves rows within the ring: they have passed",
    "park": "to segment 9, where nobody claims, and unpark brings back through the gate",
}


def statements_into_ready() -> list[str]:
    return [name for name in NAMES if _INTO_READY.search(KNOWN[name].source)]


def test_the_statements_that_put_jobs_into_ready_are_known() -> None:
    assert {"promote", "settle", "complete", "flow_wake", "enqueue_unique"} <= {*statements_into_ready()}
    assert set(MAY) <= set(statements_into_ready())


@pytest.mark.parametrize("name", [name for name in statements_into_ready() if name not in MAY])
def test_whoever_puts_a_job_into_ready_asks_for_its_limits(name: str) -> None:
    entries = _ENTRY.findall(KNOWN[name].source)
    assert entries
    for entry in entries:
        assert re.search(r"limit_name|next_limit|\blimits\b", entry), entry[:200]
