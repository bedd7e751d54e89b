"""Which ranges can be asked for, and in which pieces."""

from datetime import timedelta

import pytest

from holdfast.domain.figure_range import figure_range
from holdfast.errors import InvalidInput


@pytest.mark.parametrize(
    ("since", "resolution"),
    [("15m", "1m"), ("3h", "1m"), ("6h", "10m"), ("24h", "1h"), ("7d", "1h"), ("14d", "1h"), ("90d", "1d")],
)
def test_the_usual_resolution_fits_the_range(since: str, resolution: str) -> None:
    assert figure_range(since, None) == figure_range(since, resolution)


def test_a_resolution_can_be_chosen() -> None:
    chosen = figure_range("24h", "1m")
    assert (chosen.since, chosen.resolution) == (timedelta(days=1), timedelta(minutes=1))


@pytest.mark.parametrize(
    ("since", "resolution", "message"),
    [
        ("30s", None, "since is 30s: give a length from 1m to 90d"),
        ("91d", None, "since is 91d: give a length from 1m to 90d"),
        ("1h", "30s", "resolution is 30s: give whole minutes, or whole hours from an hour on"),
        ("1h", "90s", "resolution is 1m 30s: give whole minutes"),
        ("7d", "90m", "resolution is 1h 30m: give whole minutes, or whole hours"),
        ("25h", "10m", "minutes are for up to 1d, so give a resolution of 1h or more"),
        ("90d", "1h", "that is more than 1,500 points, so give a coarser resolution"),
    ],
)
def test_a_range_that_costs_too_much_is_refused(since: str, resolution: str | None, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        figure_range(since, resolution)
