"""Starting as root and as other users: Postgres refuses root, and no permission is changed to please it."""

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from embedded.server_users import User
from holdfast.errors import DataDirectoryError, DiskFull, OutOfReach
from holdfast.postgres.embedded import EmbeddedServer, find_binaries

pytestmark = [
    pytest.mark.machine,
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root has these days"),
    pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc and mounts"),
]

FAST = {"fsync": "off"}
NOBODY = pwd.getpwnam("nobody").pw_uid
SOMEONE = 54321


@pytest.fixture
def open_path() -> Iterator[Path]:
    """A place that everyone can reach, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o755)
        yield Path(made)


@pytest.fixture
def no_namespaces(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As in most containers: unshare is there, and refused."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "unshare").write_text("#!/bin/sh\necho 'Operation not permitted' >&2\nexit 1\n")
    (tmp_path / "bin" / "unshare").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")


@pytest.fixture
def reachable_binaries() -> None:
    blocked = [path for path in find_binaries().directory.parents if not path.stat().st_mode & 0o001]
    if blocked:
        pytest.skip(f"the binaries are behind {blocked[0]}, which is closed to others")


def owner_of(server: EmbeddedServer) -> int:
    return Path(f"/proc/{server.pid}").stat().st_uid


def modes(path: Path) -> list[tuple[Path, int, int, int]]:
    status = [(step, step.stat()) for step in (path, *path.parents)]
    return [(step, found.st_mode, found.st_uid, found.st_gid) for step, found in status]


def require_namespaces() -> None:
    refused = subprocess.run(["unshare", "-U", "true"], check=False, capture_output=True).returncode
    if refused:
        pytest.skip("user namespaces are refused here")


def test_root_in_a_namespace_needs_no_way_through_a_closed_parent(tmp_path: Path) -> None:
    require_namespaces()
    tmp_path.chmod(0o700)
    before = modes(tmp_path)
    with EmbeddedServer.start(tmp_path / ".holdfast", settings=FAST) as server:
        psycopg.connect(server.dsn).close()
        assert (tmp_path / ".holdfast" / "data").stat().st_uid == 0
    assert modes(tmp_path) == before


@pytest.mark.usefixtures("no_namespaces", "reachable_binaries")
def test_root_without_namespaces_runs_it_as_the_user_nobody(open_path: Path) -> None:
    before = modes(open_path)
    with EmbeddedServer.start(open_path / ".holdfast", settings=FAST, tcp=True) as server:
        assert owner_of(server) == NOBODY
        psycopg.connect(server.dsn).close()
        psycopg.connect(server.tcp_dsn).close()
    assert modes(open_path) == before


@pytest.mark.usefixtures("no_namespaces", "reachable_binaries")
def test_in_roots_directory_only_postgres_files_are_given_to_the_user_nobody(open_path: Path) -> None:
    (open_path / "precious").touch(0o600)
    with EmbeddedServer.start(open_path, settings=FAST) as server:
        assert owner_of(server) == NOBODY
        assert (open_path / "data").stat().st_uid == NOBODY
    assert (open_path / "precious").stat().st_uid == 0
    assert open_path.stat().st_uid == 0


@pytest.mark.usefixtures("reachable_binaries")
def test_data_made_in_a_namespace_can_be_run_without_one(
    open_path: Path, prepared: Path, request: pytest.FixtureRequest
) -> None:
    shutil.copytree(prepared, open_path / ".holdfast", ignore=shutil.ignore_patterns(".s.PGSQL.*"))
    require_namespaces()
    request.getfixturevalue("no_namespaces")
    with EmbeddedServer.start(open_path / ".holdfast", settings=FAST) as server:
        assert owner_of(server) == NOBODY
        psycopg.connect(server.dsn).close()


@pytest.mark.usefixtures("no_namespaces", "reachable_binaries")
def test_a_parent_closed_to_the_user_nobody_is_named_and_stays_closed(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o700)
    before = modes(tmp_path / "closed")
    with pytest.raises(OutOfReach, match="Postgres refuses to run as root and runs as nobody here") as caught:
        EmbeddedServer.start(tmp_path / "closed" / ".holdfast")
    assert not Path(caught.value.closed).stat().st_mode & 0o001
    assert modes(tmp_path / "closed") == before


@pytest.mark.usefixtures("no_namespaces")
def test_binaries_that_the_user_nobody_cannot_reach_are_named(
    open_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    links = tmp_path / "closed"
    links.mkdir(mode=0o700)
    for name in ("initdb", "postgres"):
        (links / name).symlink_to(find_binaries().program(name))
    monkeypatch.setenv("HOLDFAST_PG_BIN", str(links))
    with pytest.raises(OutOfReach) as caught:
        EmbeddedServer.start(open_path / ".holdfast")
    assert caught.value.path == str(links)


@pytest.mark.usefixtures("reachable_binaries")
def test_root_runs_the_server_of_someone_else_as_him_and_leaves_it_his(
    open_path: Path, prepared: Path
) -> None:
    theirs = open_path / ".holdfast"
    shutil.copytree(prepared, theirs, ignore=shutil.ignore_patterns(".s.PGSQL.*"))
    for path in (theirs, *theirs.rglob("*")):
        os.chown(path, SOMEONE, SOMEONE)
    with EmbeddedServer.start(theirs, settings=FAST, tcp=True) as server:
        assert owner_of(server) == SOMEONE
        psycopg.connect(server.tcp_dsn).close()
    assert {path.stat().st_uid for path in theirs.rglob("*")} == {SOMEONE}


@pytest.mark.usefixtures("reachable_binaries", "prepared")
@pytest.mark.parametrize("number", [NOBODY, SOMEONE], ids=["with a name", "without a name"])
def test_another_user_of_the_machine_runs_it_as_himself(open_path: Path, number: int) -> None:
    require_namespaces()
    os.chown(open_path, number, number)
    # Forked, not run: the interpreter itself may be out of that user's reach, but what a start uses of it
    # was loaded when the directory was prepared.
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(number)
            os.setuid(number)
            with EmbeddedServer.start(open_path / ".holdfast", settings=FAST) as server:
                psycopg.connect(server.dsn).close()
                os.write(writer, str(owner_of(server)).encode())
        except BaseException as error:  # noqa: BLE001 - told to the parent
            os.write(writer, repr(error).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as told:
        assert told.read() == str(number)
    os.waitpid(child, 0)


def test_a_normal_user_is_bound_by_permissions(tmp_path: Path) -> None:
    require_namespaces()
    (tmp_path / "closed").mkdir(mode=0o555)
    as_a_user = ["unshare", "-U", "--map-user=1000", "--map-group=1000"]
    for place, outcome in ((tmp_path / "mine", "dsn"), (tmp_path / "closed" / ".holdfast", "error")):
        user = User(place, {"settings": FAST}, prefix=as_a_user).start()
        try:
            facts = user.facts()
            assert outcome in facts, facts
            assert facts.get("user", 1000) == 1000
            assert facts.get("error", "DataDirectoryError") == DataDirectoryError.__name__
            user.leave() if outcome == "dsn" else user.process.wait(30)
        finally:
            user.close()


@pytest.fixture
def small_disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A file system of its own, of as many megabytes as the test says."""
    place = tmp_path / "disk"
    place.mkdir()
    size = request.param
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}m,mode=0700", "tmpfs", str(place)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("mounting is refused here")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.mark.parametrize("small_disk", [12], indirect=True)
def test_a_disk_that_is_full_at_initdb_is_told(small_disk: Path) -> None:
    with pytest.raises(DiskFull, match="free some, or choose another data directory"):
        EmbeddedServer.start(small_disk / ".holdfast")
    assert not list((small_disk / ".holdfast").glob("data*"))


@pytest.mark.parametrize("small_disk", [90], indirect=True)
def test_a_disk_that_is_full_at_start_is_told_and_costs_nothing(small_disk: Path) -> None:
    EmbeddedServer.start(small_disk / ".holdfast", settings=FAST).stop()
    filler = small_disk / "filler"
    with filler.open("wb", buffering=0) as file:
        free = os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_frsize
        os.posix_fallocate(file.fileno(), 0, free)
    with pytest.raises(DiskFull):
        EmbeddedServer.start(small_disk / ".holdfast", settings=FAST)
    filler.unlink()
    with EmbeddedServer.start(small_disk / ".holdfast", settings=FAST) as server:
        psycopg.connect(server.dsn).close()
