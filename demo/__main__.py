"""`python -m demo [--keep]`. Imports the story late: Ctrl-C must not show a traceback at any moment."""

import argparse
import sys

from demo.signals import INTERRUPTED, take_as_ctrl_c


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m demo", description="A small shop on a private Postgres.")
    parser.add_argument("--keep", action="store_true", help="go on taking orders until Ctrl-C")
    keep = parser.parse_args().keep
    try:
        take_as_ctrl_c()
        from demo.story import play

        return play(keep=keep)
    except KeyboardInterrupt:
        sys.stdout.write("\nstopped\n")
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
