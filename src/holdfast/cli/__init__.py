"""The `holdfast` command: reads options, calls the layers below, and turns their errors into exit codes."""

from holdfast.cli.group import main

__all__ = ["main"]
