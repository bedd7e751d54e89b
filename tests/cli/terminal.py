"""A standard input that says it is a terminal."""

import io


class FakeTerminal(io.StringIO):
    def isatty(self) -> bool:
        return True
