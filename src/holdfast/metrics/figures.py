"""The values of metrics at one moment, of one process or of several together."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence

import msgspec

from holdfast.metrics.catalogue import BY_NAME, Metric

Labels = tuple[str, ...]


class Distribution(msgspec.Struct):
    """How many values are in each bucket of a metric, the last one being beyond all; and their sum."""

    counts: list[int]
    total: float = 0.0

    @classmethod
    def over(cls, buckets: Sequence[float]) -> "Distribution":
        return cls([0] * (len(buckets) + 1))

    def add(self, buckets: Sequence[float], value: float, times: int = 1) -> None:
        self.counts[bisect_left(buckets, value)] += times
        self.total += value * times

    def include(self, other: "Distribution") -> None:
        self.counts = [mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True)]
        self.total += other.total

    def copy(self) -> "Distribution":
        return Distribution(list(self.counts), self.total)


class Figures(msgspec.Struct):
    """By the name of the metric, and then by the values of its labels in their order."""

    values: dict[str, dict[Labels, float]] = {}
    distributions: dict[str, dict[Labels, Distribution]] = {}

    def add(self, metric: Metric, value: float, *labels: str) -> None:
        of_metric = self.values.setdefault(metric.name, {})
        of_metric[labels] = of_metric.get(labels, 0.0) + value

    def add_distribution(self, metric: Metric, distribution: Distribution, *labels: str) -> None:
        of_metric = self.distributions.setdefault(metric.name, {})
        if labels in of_metric:
            of_metric[labels].include(distribution)
        else:
            of_metric[labels] = distribution.copy()

    def include(self, other: "Figures", *, is_over: bool = False) -> None:
        """Join with those of another process. `is_over`: it has ended, and only what it counted is left."""
        for name, series in other.values.items():
            metric = BY_NAME[name]
            if is_over and metric.type != "counter":
                continue
            of_metric = self.values.setdefault(name, {})
            for labels, value in series.items():
                before = of_metric.get(labels)
                if metric.joined == "lowest":
                    of_metric[labels] = value if before is None else min(before, value)
                else:
                    of_metric[labels] = value + (before or 0.0)
        for name, distributions in other.distributions.items():
            for labels, distribution in distributions.items():
                self.add_distribution(BY_NAME[name], distribution, *labels)


def joined(all_figures: Iterable[Figures]) -> Figures:
    whole = Figures()
    for figures in all_figures:
        whole.include(figures)
    return whole
