"""How a child finds the function of a handler: by its module and its name there."""

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from importlib import import_module
from typing import Any

from holdfast.errors import InvalidInput
from holdfast.worker.processes.main_script import MainScript


@dataclass(frozen=True, slots=True)
class Reference:
    module: str
    name: str
    script: MainScript | None = None

    @property
    def values(self) -> tuple[str, str, MainScript | None]:
        """It travels with every call, and pickled by itself it would take several times as long."""
        return self.module, self.name, self.script

    @classmethod
    def of(cls, function: Callable[..., Any]) -> "Reference":
        """Refuses what a child could not find, or would mistake for something else."""
        module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
        if module is None or name is None or "<" in name:
            raise InvalidInput(
                f'{name or function!r} cannot be found by a child process: isolate="process" needs a '
                "function that is defined at the top of a module"
            )
        reference = cls(module, name, MainScript.of_this_process() if module == "__main__" else None)
        if reference.found_in(sys.modules[module]) is not function:
            raise InvalidInput(
                f"{module}.{name} is another object than the job's function, so a child process would run "
                "the wrong one: give it a name of its own, with @app.job as its outermost decorator"
            )
        return reference

    def resolve(self) -> Callable[..., Any]:
        """In a child: imports the module, the first time."""
        return self.found_in(self.script.load() if self.script else import_module(self.module))

    def found_in(self, module: object) -> Callable[..., Any]:
        """What the decorator put in the function's place knows the function."""
        try:
            found: Any = reduce(getattr, self.name.split("."), module)
        except AttributeError:
            raise InvalidInput(
                f"{self.module} has no {self.name}, which a child process was to run"
            ) from None
        function: Callable[..., Any] = (
            found if inspect.isfunction(found) else getattr(found, "function", found)
        )
        return function
