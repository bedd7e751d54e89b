"""All statements of the storage layer: each of its modules is imported, so that each has read its own."""

from importlib import import_module
from pkgutil import iter_modules

from holdfast import storage
from holdfast.storage.statements import FOLDER, KNOWN

for module in iter_modules(storage.__path__):
    import_module(f"{storage.__name__}.{module.name}")

NAMES = sorted(path.name.removesuffix(".sql") for path in FOLDER.iterdir())

__all__ = ["KNOWN", "NAMES"]
