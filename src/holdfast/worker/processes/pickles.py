"""Pickles of the user's values, in the worker and in its children. A script is `__main__` in the worker and
`__mp_main__` in a child.
"""

import io
import pickle
import sys
from typing import Any

MAIN_IN_CHILD = "__mp_main__"


class _Reader(pickle.Unpickler):
    def __init__(self, data: bytes, *, imports: bool) -> None:
        super().__init__(io.BytesIO(data))
        self._imports = imports

    def find_class(self, module: str, name: str) -> Any:
        if module == MAIN_IN_CHILD:
            module = "__main__"  # in a child, both names are one module
        if not self._imports and module not in sys.modules:
            raise pickle.UnpicklingError(f"{module} is not imported here")
        return super().find_class(module, name)


def dump(value: object) -> bytes:
    return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)


def load(data: bytes, *, imports: bool = True) -> Any:
    """Without `imports`, only what is imported here already: an error from a library that only the child
    uses must not make the worker load it.
    """
    return _Reader(data, imports=imports).load()
