"""A process whose clock is wrong: nothing changes, since only the database's clock decides."""

import os
import shutil
import subprocess
import sys
import time
from typing import Any

import pytest

from acceptance.books import Books
from acceptance.workers import Workers
from support.waiting import until

pytestmark = [pytest.mark.machine, pytest.mark.root]


def wrong_clock(shift: str) -> dict[str, str]:
    program = shutil.which("faketime")
    if program is None:
        pytest.fail("faketime is not installed: run scripts/install-machine-tools")
    found = subprocess.run(
        [program, "-f", "+0", "env"], capture_output=True, text=True, check=True, timeout=10
    ).stdout
    [library] = [line.partition("=")[2] for line in found.splitlines() if line.startswith("LD_PRELOAD=")]
    wrong = {"LD_PRELOAD": library, "FAKETIME": shift, "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    show = [sys.executable, "-c", "import time; print(time.time())"]
    shown = subprocess.run(show, env={**os.environ, **wrong}, capture_output=True, check=True, timeout=10)
    assert abs(float(shown.stdout) - time.time()) > 3_000, "the clock was not moved"
    return wrong


@pytest.mark.requirement("S1.25")
@pytest.mark.parametrize("shift", ["+1h", "-1h"])
async def test_a_worker_whose_clock_is_an_hour_off_works_like_any_other(
    shop: Any, shop_next: Any, books: Books, workers: Workers, shift: str
) -> None:
    wrong = await workers.start(environment=wrong_clock(shift))
    await until(lambda: books.leader() == wrong.id, "it leads")
    later = await shop.pay.using(delay="500ms").enqueue(0)
    much_later = await shop.pay.using(delay="30m").enqueue(0)
    unread = await shop_next.greet.enqueue("Kari", language="nb")
    await shop.app.enqueue_many([shop.pay.call(number) for number in range(100)])
    await books.all_finished(101)
    await until(lambda: books.outcomes(unread.id), "it has met what it cannot read")
    assert set(books.outcomes(unread.id)) == {"snoozed"}
    assert books.outcomes(later.id) == ["succeeded"]
    assert books.state(much_later.id) == "scheduled"
    right = await workers.start(module="acceptance.shop_next")
    assert await unread.result("30s") == "hei Kari"
    beat = "select bool_and(expires_at between now() and now() + interval '11 s') from holdfast.worker"
    assert books.value(beat)
    await wrong.stop()
    await right.stop()
    assert not wrong.lines("lost") + right.lines("lost")
    books.assert_effects_once(101)
