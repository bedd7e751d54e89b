import inspect
from pathlib import Path

from holdfast import errors
from holdfast.postgres.embedded import EmbeddedServer

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "embedded-postgres.md"


def test_every_option_and_every_error_is_on_the_page() -> None:
    options = inspect.signature(EmbeddedServer.start).parameters
    kinds = {
        name
        for name, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, errors.EmbeddedError) and kind is not errors.EmbeddedError
    }
    page = PAGE.read_text("utf-8")
    assert not [name for name in {*options, *kinds} if f"`{name}" not in page]
