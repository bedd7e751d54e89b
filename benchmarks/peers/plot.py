"""A bar for each figure: how often over it reaches its target. Plain SVG, legible on light and dark paper."""

from html import escape
from math import log2

from benchmarks.figure import Figure

_BARS, _VALUES, _LINE = 360, 130, 26
_LEAST_LABELS, _LETTER = 470, 6.4
_MOST = 3.0
"""Powers of two to either side of the target that fit; what is longer is cut off, its number tells."""

_STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#777}.met{fill:#2a9d63}.missed{fill:#d1495b}line{stroke:#999}"
)


def plot(all_figures: list[Figure]) -> str:
    figures = [figure for figure in all_figures if figure.target.bound != "informative"]
    labels = max([_LEAST_LABELS, *(int(len(_label(figure)) * _LETTER) + 16 for figure in figures)])
    width, height = labels + _BARS + _VALUES, _LINE * (len(figures) + 2)
    middle = labels + _BARS / 2
    rows = [_row(figure, _LINE * (number + 1), labels) for number, figure in enumerate(figures)]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
            "<title>Every figure as a multiple of its target</title>",
            f"<style>{_STYLE}</style>",
            f'<text x="{middle:g}" y="16" text-anchor="middle">missed | target | passed, doubling</text>',
            *rows,
            f'<line x1="{middle:g}" x2="{middle:g}" y1="{_LINE}" y2="{height - _LINE}"/>',
            "</svg>",
            "",
        ]
    )


def _label(figure: Figure) -> str:
    return figure.measure.replace("`", "")


def _row(figure: Figure, top: float, labels: int) -> str:
    middle = labels + _BARS / 2
    ratio = figure.value / figure.target.value
    over = log2(max(ratio if figure.target.bound == "at_least" else 1 / max(ratio, 1e-9), 1e-9))
    length = max(min(abs(over), _MOST) * _BARS / 2 / _MOST, 1)
    left = middle if over >= 0 else middle - length
    kind = "met" if figure.is_met else "missed"
    base = top + _LINE * 0.7
    return (
        f'<text x="{labels - 8}" y="{base:.1f}" text-anchor="end">{escape(_label(figure))}</text>'
        f'<rect class="{kind}" x="{left:.1f}" y="{top + 5:.1f}" width="{length:.1f}" height="{_LINE - 10}"/>'
        f'<text x="{labels + _BARS + 8}" y="{base:.1f}">'
        f"{escape(figure.target.show(figure.value))} ({escape(str(figure.target))})</text>"
    )
