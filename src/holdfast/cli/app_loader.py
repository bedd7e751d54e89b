"""Loads the App that `-A MODULE:ATTRIBUTE` names, or says why it cannot."""

import importlib
import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType

import click

from holdfast.app import App
from holdfast.errors import HoldfastError

_EXAMPLE = "write MODULE:ATTRIBUTE, such as shop.jobs:app"


class AppNotImported(HoldfastError):
    """The module is there, and raised an error of its own while it was imported."""


def load_app(reference: str) -> App:
    """Import it as a program started in this directory would. A wrong reference is a usage error."""
    module_name, attribute = _read(reference)
    found: object = _imported(module_name)
    for name in attribute.split("."):
        if not hasattr(found, name):
            raise _wrong(
                f"{module_name} has no attribute {name!r}{_apps_of(found)}{_inside(found, module_name)}"
            )
        found = getattr(found, name)
    if not isinstance(found, App):
        raise _wrong(
            f"{reference} is of type {type(found).__name__}, not an App{_apps_of_module(module_name)}"
        )
    return found


def project_directory(reference: str) -> Path:
    """Where the code of this app lives, without importing it: the current directory, unless the package is
    installed from somewhere else.
    """
    module_name, _ = _read(reference)
    top = module_name.partition(".")[0]
    spec = importlib.util.find_spec(top)
    if spec is None:
        raise _missing(top)
    places = list(spec.submodule_search_locations or ()) or [str(Path(spec.origin or top).parent)]
    here, place = Path.cwd(), Path(places[0]).resolve()
    return here if place.is_relative_to(here) else place


def _read(reference: str) -> tuple[str, str]:
    """Its two parts; from here on, modules of this directory can be imported."""
    module_name, _, attribute = reference.partition(":")
    if not attribute or not all(part.isidentifier() for part in module_name.split(".")):
        raise _wrong(f"{reference!r} does not name an app: {_EXAMPLE}")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    return module_name, attribute


def _imported(name: str) -> object:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # A module that imports another one which is missing is a different matter.
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise _missing(error.name) from None
        raise AppNotImported(_told(name, error)) from error
    except (Exception, SystemExit) as error:
        raise AppNotImported(_told(name, error)) from error


def _missing(module: str) -> click.BadParameter:
    return _wrong(
        f"there is no module {module!r} in {Path.cwd()} or on Python's path: start the worker in "
        f"the directory that holds it, or install it; {_EXAMPLE}"
    )


def _told(name: str, error: BaseException) -> str:
    """With the line that raised it: the last one outside of the import machinery."""
    if isinstance(error, SyntaxError):
        return f"{name} cannot be imported: {error.filename}:{error.lineno}: {error.msg}"
    frames = [
        frame for frame in traceback.extract_tb(error.__traceback__) if "importlib" not in frame.filename
    ][1:]
    place = f"{frames[-1].filename}:{frames[-1].lineno}: {frames[-1].line}: " if frames else ""
    what = f"{type(error).__name__}: {error}".removesuffix(": ")  # sys.exit() has nothing to say
    return f"{name} cannot be imported: {place}{what}"


def _apps_of(found: object) -> str:
    names = [name for name, value in vars(found).items() if isinstance(value, App)]
    return f"; it has the app {' and '.join(map(repr, names))}" if names else ""


def _inside(found: object, module_name: str) -> str:
    """A directory can be imported, too: the project's, from the directory around it."""
    if isinstance(found, ModuleType) and found.__file__ is None:
        for directory in found.__path__:
            if Path(directory, f"{module_name}.py").is_file():
                return f": {directory} is a directory that holds {module_name}.py; go there first, with cd"
    return ""


def _apps_of_module(name: str) -> str:
    return _apps_of(sys.modules[name])


def _wrong(sentence: str) -> click.BadParameter:
    return click.BadParameter(sentence, param_hint="'-A' / '--app'")
