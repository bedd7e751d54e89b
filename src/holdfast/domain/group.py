"""Groups: how their members ended, and which job follows them. Decided here, without a clock and SQL."""

import json
from dataclasses import dataclass
from typing import Literal

from holdfast.domain.origin import read_origin

GroupState = Literal["running", "finishing", "cancelling", "ended", "cancelled"]
"""`running`: members have not ended. `finishing`: all of them have, and the job that follows has not.
`cancelling`: cancelled, and not all of it has ended.
"""

GROUP_STATES: tuple[GroupState, ...] = ("running", "finishing", "cancelling", "ended", "cancelled")

Follower = Literal["then", "on_failure"]


@dataclass(frozen=True, slots=True)
class GroupCounts:
    """How many members a group has, and how those that ended did. `gone`: their rows were deleted by hand."""

    members: int
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    expired: int = 0
    gone: int = 0

    @property
    def ended(self) -> int:
        """How many have ended, in any way."""
        return self.succeeded + self.unsuccessful

    @property
    def unsuccessful(self) -> int:
        """How many have ended without success."""
        return self.failed + self.cancelled + self.expired + self.gone

    @property
    def left(self) -> int:
        """How many have not ended."""
        return max(self.members - self.ended, 0)

    @property
    def fraction(self) -> float:
        """How much of the group has ended, from 0 to 1."""
        return min(self.ended / self.members, 1.0) if self.members else 1.0

    @property
    def has_succeeded(self) -> bool:
        """Whether every member has succeeded."""
        return self.succeeded == self.members

    def __add__(self, other: "GroupCounts") -> "GroupCounts":
        return GroupCounts(
            self.members + other.members,
            self.succeeded + other.succeeded,
            self.failed + other.failed,
            self.cancelled + other.cancelled,
            self.expired + other.expired,
            self.gone + other.gone,
        )


@dataclass(frozen=True, slots=True)
class EndedGroup:
    """What the job that follows a group is told of it: `ctx.group`."""

    id: int
    name: str | None
    counts: GroupCounts


def follower(
    counts: GroupCounts, *, has_then: bool, has_on_failure: bool, is_cancelled: bool
) -> Follower | None:
    """Which job follows, once every member has ended. None follows a cancelled group. `on_failure` takes the
    place of `then` if a member did not succeed; without it, `then` follows in any case.
    """
    if is_cancelled:
        return None
    if has_on_failure and not counts.has_succeeded:
        return "on_failure"
    return "then" if has_then else None


def with_group(origin: str | None, group: EndedGroup) -> str:
    """The origin of the job that follows: it tells the group and its counts."""
    counts = group.counts
    told = {
        "id": group.id,
        "name": group.name,
        "members": counts.members,
        "succeeded": counts.succeeded,
        "failed": counts.failed,
        "cancelled": counts.cancelled,
        "expired": counts.expired,
        "gone": counts.gone,
    }
    return json.dumps(read_origin(origin) | {"group": told}, ensure_ascii=False)


def group_of(origin: str | None) -> EndedGroup | None:
    """The group that a job with this origin follows; None for any other, and for one written by hand."""
    match read_origin(origin).get("group"):
        case {
            "id": int(group),
            "members": int(members),
            "succeeded": int(succeeded),
            "failed": int(failed),
            "cancelled": int(cancelled),
            "expired": int(expired),
            "gone": int(gone),
            **rest,
        }:
            name = rest.get("name")
            counts = GroupCounts(members, succeeded, failed, cancelled, expired, gone)
            return EndedGroup(group, name if isinstance(name, str) else None, counts)
    return None
