"""How many cores this process may use: those it is bound to, and no more than its container's CPU quota."""

import os
from collections.abc import Callable
from contextlib import suppress
from math import ceil
from pathlib import Path, PurePosixPath


def cores(root: Path = Path("/")) -> int:
    """At least 1. A quota of one and a half cores counts as two."""
    try:
        bound = len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS
        bound = os.cpu_count() or 1
    return max(1, min([bound, *map(ceil, _quotas(root))]))


def _quotas(root: Path) -> list[float]:
    """Of every control group that we are in, in cores: a group is bound by those above it, too."""
    quotas: list[float] = []
    with suppress(OSError):
        for line in (root / "proc/self/cgroup").read_text("utf-8").splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers:
                quotas += _in_all(root / "sys/fs/cgroup", path, _second_version)
            elif "cpu" in controllers.split(","):
                for name in (controllers, "cpu"):
                    quotas += _in_all(root / "sys/fs/cgroup" / name, path, _first_version)
    return quotas


def _in_all(mount: Path, path: str, read: Callable[[Path], float]) -> list[float]:
    """A container may see a path that exists only on its host: then what is mounted is its own group."""
    group = PurePosixPath(path.lstrip("/"))
    quotas: list[float] = []
    for each in (group, *group.parents):
        with suppress(OSError, ValueError):
            quota = read(mount / each)
            quotas += [quota] if quota > 0 else []
    return quotas


def _second_version(group: Path) -> float:
    """Raises ValueError for `max 100000`, which means that there is no quota."""
    quota, period = (group / "cpu.max").read_text("utf-8").split()
    return int(quota) / int(period)


def _first_version(group: Path) -> float:
    """-1 is none."""
    quota = int((group / "cpu.cfs_quota_us").read_text("utf-8"))
    return quota / int((group / "cpu.cfs_period_us").read_text("utf-8"))
