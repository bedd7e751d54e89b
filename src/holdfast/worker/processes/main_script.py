"""Handlers of a script that is run by its path, `python shop.py` or `python -m shop`: in a child it is
imported once more, under another name, so that what is behind `if __name__ == "__main__":` does not run
again.
"""

import ast
import sys
from dataclasses import dataclass
from functools import cache
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

from holdfast.errors import InvalidInput
from holdfast.worker.processes.pickles import MAIN_IN_CHILD

_is_loading = False


@dataclass(frozen=True, slots=True)
class MainScript:
    """Where the code of `__main__` lies, and the package that its relative imports start from."""

    path: str
    package: str | None

    @classmethod
    def of_this_process(cls) -> "MainScript":
        main = sys.modules["__main__"]
        path = getattr(main, "__file__", None)
        if path is None or not Path(path).is_file():
            raise InvalidInput(
                'isolate="process" needs code that can be imported again, and this was typed in or piped: '
                "move the job to a module"
            )
        if not _is_guarded(path):
            raise InvalidInput(
                f'isolate="process" imports {path} once more in each child process, which would run all '
                'of it again: put what starts the worker behind `if __name__ == "__main__":`, or move the '
                "job to a module"
            )
        return cls(str(Path(path).resolve()), main.__package__)

    def load(self) -> ModuleType:
        """In a child. Once; also known as `__main__` from then on, which is what the worker calls it."""
        global _is_loading  # noqa: PLW0603  # there is one main script in a process
        if MAIN_IN_CHILD in sys.modules:
            return sys.modules[MAIN_IN_CHILD]
        loader = SourceFileLoader(MAIN_IN_CHILD, self.path)
        module = ModuleType(MAIN_IN_CHILD)
        module.__file__, module.__package__ = self.path, self.package
        before = sys.modules["__main__"]
        sys.modules[MAIN_IN_CHILD] = sys.modules["__main__"] = module
        _is_loading = True
        try:
            loader.exec_module(module)
        except BaseException:
            del sys.modules[MAIN_IN_CHILD]
            sys.modules["__main__"] = before
            raise
        finally:
            _is_loading = False
        return module


def refuse_a_second_worker() -> None:
    """A script that starts its worker outside of the guard that it has must not start one in every child."""
    if _is_loading:
        raise InvalidInput(
            "a child process was importing this script, which starts a worker at once: put that behind "
            '`if __name__ == "__main__":`'
        )


@cache
def _is_guarded(path: str) -> bool:
    """Whether some statement at the top asks for `__name__`."""
    tree = ast.parse(Path(path).read_bytes())
    tests = [node.test for node in tree.body if isinstance(node, ast.If)]
    return any(
        isinstance(node, ast.Name) and node.id == "__name__" for test in tests for node in ast.walk(test)
    )
