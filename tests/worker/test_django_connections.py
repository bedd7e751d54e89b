"""Plain functions that use Django leave no connection behind, and survive a restart of Postgres."""

import subprocess
import sys
from pathlib import Path

import pytest

SHOP = Path(__file__).with_name("django_shop.py")
BURSTS = Path(__file__).with_name("django_bursts.py")


@pytest.mark.parametrize("age", ["closed", "kept"])
def test_orm_jobs_leave_no_connection_behind_and_go_on_after_a_restart_of_postgres(
    age: str, tmp_path: Path
) -> None:
    """Closed after each attempt as CONN_MAX_AGE says; one that is kept and broken fails once."""
    run(SHOP, str(tmp_path / "server"), age)


def test_kept_connections_are_closed_when_their_thread_ends(tmp_path: Path) -> None:
    """Connections close with idle threads and with the worker, and never outnumber the jobs at once."""
    run(BURSTS, str(tmp_path / "server"))


def run(script: Path, *arguments: str) -> None:
    ended = subprocess.run(
        [sys.executable, str(script), *arguments],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert ended.stdout.endswith("fine\n"), ended.stdout + ended.stderr


def test_a_worker_without_django_never_imports_it() -> None:
    code = (
        "import sys; from holdfast.worker import worker, job_threads, django_connections as ours; "
        "f = job_threads.JobThreads(1).submit(lambda: 1); assert f.result(10) == 1; "
        "assert not ours.is_loaded(); "
        "assert not [name for name in sys.modules if name.startswith(('django', 'asgiref'))]"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
