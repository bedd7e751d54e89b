"""What a measure found, beside what it was to reach."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

Bound = Literal["at_least", "at_most", "informative"]
Unit = Literal["%", "x", "B", "MB", "/s", "s", "µs"]

_SHOWN: Mapping[Unit, str] = {
    "%": "{:.0%}",
    "x": "{:.2f} x",
    "B": "{:,.0f} B",
    "MB": "{:,.1f} MB",
    "/s": "{:,.2f} /s",
    "s": "{:,.1f} s",
    "µs": "{:,.0f} µs",
}


@dataclass(frozen=True, slots=True)
class Target:
    """`at_least` 0.85 of something, or `at_most` 1.3 times it, or so many bytes or events. What is shown
    beside the others, with nothing to reach, is `informative`.
    """

    bound: Bound
    value: float
    unit: Unit

    @classmethod
    def informative(cls, unit: Literal["%", "x"]) -> "Target":
        return cls("informative", 1.0, unit)

    def is_met_by(self, value: float) -> bool:
        match self.bound:
            case "at_least":
                return value >= self.value
            case "at_most":
                return value <= self.value
            case "informative":
                return True

    def __str__(self) -> str:
        match self.bound:
            case "at_least":
                return f"≥ {self.show(self.value)}"
            case "at_most":
                return f"≤ {self.show(self.value)}"
            case "informative":
                return "none"

    def show(self, value: float) -> str:
        return _SHOWN[self.unit].format(value)


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table. `detail` gives the absolute figures behind the ratio, for the curious."""

    name: str
    measure: str
    value: float
    target: Target
    detail: str

    @property
    def is_met(self) -> bool:
        return self.target.is_met_by(self.value)

    def verdict(self, missed: str) -> str:
        if self.target.bound == "informative":
            return ""
        return "pass" if self.is_met else missed

    def to_json(self) -> dict[str, object]:
        return {
            "name": self.name,
            "measure": self.measure,
            "value": round(self.value, 4),
            "unit": self.target.unit,
            self.target.bound: self.target.value,
            "is_met": self.is_met,
            "detail": self.detail,
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> "Figure":
        [bound] = {"at_least", "at_most", "informative"} & set(found)
        target = Target(cast("Bound", bound), found[bound], found["unit"])
        return cls(found["name"], found["measure"], found["value"], target, found["detail"])


def table(figures: list[Figure]) -> str:
    rows = [("measure", "found", "to reach", "", "behind it")]
    rows += [
        (
            figure.measure,
            figure.target.show(figure.value),
            str(figure.target),
            figure.verdict("MISS"),
            figure.detail,
        )
        for figure in figures
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    return "\n".join(line.rstrip() for line in lines)


def markdown(figures: list[Figure]) -> str:
    lines = ["| measure | found | to reach | | behind it |", "|---|---:|---:|---|---|"]
    lines += [
        f"| {each.measure} | {each.target.show(each.value)} | {each.target} "
        f"| {each.verdict('**miss**')} | {each.detail} |"
        for each in figures
    ]
    return "\n".join(lines)
