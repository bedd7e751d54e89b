"""Does a test notice? Applies breaks to a copy of the tree, one at a time, and runs the tests they name.

    make mutate              some of them, chosen by a seed that is printed
    make mutate SEED=7       the same ones again
    make mutate ALL=1        all
    make mutate ONLY=prune   those with this in their names

A break is noticed when pytest has run tests and some of them failed; an error before any test has run is no
notice, but a mistake in the break. Exits with 1 when a break went unnoticed.
"""

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic

from mutations.breaks import BREAKS, Break

ROOT = Path(__file__).parents[2]
TESTS_FAILED = 1
_COPIED = ("src", "tests", "docs", "demo", "benchmarks", "pyproject.toml", "README.md", "CONTRIBUTING.md")
_PYTEST = ("-m", "pytest", "-q", "-x", "-p", "no:xdist", "-p", "no:cacheprovider", "-p", "no:randomly")
_SECONDS_EACH = 170


def applied(tree: Path, each: Break) -> tuple[Path, str]:
    """Where a break goes, and what is written there; ValueError when it does not fit any more."""
    path = tree / "src" / "holdfast" / each.file
    text = path.read_text("utf-8")
    found = text.count(each.old)
    if found != 1:
        raise ValueError(f'"{each.name}": its old text stands {found} times in {each.file}, not once')
    return path, text.replace(each.old, each.new)


def copied(into: Path) -> None:
    for name in _COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, into / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            shutil.copy2(source, into / name)


def judged(tree: Path, each: Break) -> tuple[str, str]:
    """ "noticed", "UNNOTICED" or "MISTAKE", and what pytest said last."""
    path, text = applied(tree, each)
    before = path.read_text("utf-8")
    path.write_text(text, "utf-8")
    try:
        done = subprocess.run(
            [sys.executable, *_PYTEST, *(f"tests/{test}" for test in each.tests)],
            cwd=tree,
            env={**os.environ, "PYTHONPATH": f"{tree / 'src'}:{tree / 'tests'}"},
            capture_output=True,
            text=True,
            timeout=_SECONDS_EACH,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "MISTAKE", f"its tests did not end within {_SECONDS_EACH} s"
    finally:
        path.write_text(before, "utf-8")
    lines = done.stdout.strip().splitlines()
    last = lines[-1].strip("= ") if lines else done.stderr.strip()[-200:]
    if done.returncode == 0:
        return "UNNOTICED", last
    if done.returncode == TESTS_FAILED and re.search(r"\d+ failed", last):
        return "noticed", last
    return "MISTAKE", last


def chosen(arguments: argparse.Namespace) -> list[Break]:
    if arguments.only:
        return [each for each in BREAKS if arguments.only in each.name]
    if arguments.all:
        return list(BREAKS)
    seed = arguments.seed or random.SystemRandom().randrange(1_000_000)
    print(f"SEED={seed}", flush=True)
    return random.Random(seed).sample(BREAKS, len(BREAKS))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--only")
    parser.add_argument("--seconds", type=float, default=150, help="begin no further break after so many")
    arguments = parser.parse_args()
    breaks = chosen(arguments)
    is_bounded = not (arguments.all or arguments.only)
    began = monotonic()
    bad = tried = 0
    with TemporaryDirectory(prefix="holdfast-mutate-") as directory:
        copied(Path(directory))
        for each in breaks:
            if is_bounded and monotonic() - began > arguments.seconds:
                break
            since = monotonic()
            verdict, said = judged(Path(directory), each)
            tried += 1
            bad += verdict != "noticed"
            print(f"{verdict:<10} {monotonic() - since:5.1f} s  {each.name}", flush=True)
            if verdict != "noticed":
                print(f"           {said}\n           {' '.join(each.tests)}", flush=True)
    print(f"{tried} of {len(BREAKS)} breaks tried, {tried - bad} noticed")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
