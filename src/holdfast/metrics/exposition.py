"""Figures in the text format of Prometheus, version 0.0.4. Written here: it is a few lines, and a worker
needs no library for them.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from holdfast.metrics.catalogue import METRICS, Metric
from holdfast.metrics.figures import Distribution, Figures, Labels

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


def exposition(figures: Figures, metrics: Sequence[Metric] = METRICS) -> str:
    """Every metric of the catalogue is named, also one that has no value yet."""
    return "".join(f"{line}\n" for metric in metrics for line in _of(metric, figures))


def _of(metric: Metric, figures: Figures) -> Iterator[str]:
    yield f"# HELP {metric.name} {metric.help}"
    yield f"# TYPE {metric.name} {metric.type}"
    if metric.type == "histogram":
        found = figures.distributions.get(metric.name, {})
        for labels in sorted(found):
            yield from _histogram(metric, labels, found[labels])
    else:
        values = figures.values.get(metric.name, {})
        if not values and not metric.labels and metric.type == "counter":
            values = {(): 0.0}
        for labels in sorted(values):
            yield _sample(metric.name, zip(metric.labels, labels, strict=True), values[labels])


def _histogram(metric: Metric, labels: Labels, distribution: Distribution) -> Iterator[str]:
    named = list(zip(metric.labels, labels, strict=True))
    below = 0
    for bucket, count in zip((*metric.buckets, None), distribution.counts, strict=True):
        below += count
        edge = "+Inf" if bucket is None else repr(bucket)
        yield _sample(f"{metric.name}_bucket", [*named, ("le", edge)], below)
    yield _sample(f"{metric.name}_sum", named, distribution.total)
    yield _sample(f"{metric.name}_count", named, below)


def _sample(name: str, labels: Iterable[tuple[str, str]], value: float) -> str:
    inside = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels)
    return f"{name}{{{inside}}} {float(value)!r}" if inside else f"{name} {float(value)!r}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
