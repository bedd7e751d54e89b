"""What a run has found, how it is shown, and how it is kept beside what other runs have found."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.figure import Figure, table


@dataclass(frozen=True, slots=True)
class Found:
    """`loads`: how busy the machine was before each run began."""

    figures: list[Figure]
    server: str
    loads: list[float]

    @property
    def machine(self) -> str:
        """In general terms, for the head of the table."""
        if len(self.loads) == 1:
            return f"{self.server}, load {self.loads[0]:.1f} before it began"
        least, most = min(self.loads), max(self.loads)
        return f"{self.server}, {len(self.loads)} runs, load {least:.1f} to {most:.1f} before they began"

    def show(self, *, is_json: bool) -> None:
        if is_json:
            figures = [figure.to_json() for figure in self.figures]
            print(json.dumps({"machine": self.machine, "figures": figures}, indent=2))
        else:
            print(f"{self.machine}\n\n{table(self.figures)}")

    def put_into(self, file: Path) -> "Found":
        """Keep it there, and give all that is there now. A measure that ran again replaces its figures."""
        names = {figure.name for figure in self.figures}
        rows = json.loads(file.read_text("utf-8")) if file.exists() else []
        rows = [row for row in rows if row["figure"]["name"] not in names]
        rows += [{"load": self.loads[0], "figure": figure.to_json()} for figure in self.figures]
        file.write_text(json.dumps(rows, indent=2), "utf-8")
        loads = {row["figure"]["name"]: float(row["load"]) for row in rows}
        return Found([Figure.from_json(row["figure"]) for row in rows], self.server, list(loads.values()))

    def in_order(self, names: Iterable[str]) -> list[Figure]:
        return [figure for name in names for figure in self.figures if figure.name == name]
