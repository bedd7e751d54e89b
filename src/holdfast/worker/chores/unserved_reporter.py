"""Warns of jobs and schedules that no running worker serves, for as long as this worker leads."""

from holdfast.storage.channels import Channel
from holdfast.telemetry.events import NobodyServes
from holdfast.worker.chores.chore import Chore, Did
from holdfast.worker.unserved_warnings import SURE_SECONDS, UnservedWarnings, facts_of


class UnservedReporter:
    """Warns of what two looks in a row have found."""

    def __init__(self, warnings: UnservedWarnings) -> None:
        self._warnings = warnings
        self._seen: set[NobodyServes] = set()

    async def once(self) -> Did:
        found = facts_of(await self._warnings.look())
        await self._warnings.warn_of(found & self._seen)
        self._warnings.forget_others(found)
        self._seen = found
        return Did(again_in=SURE_SECONDS if self._warnings.not_said(found) else None)


REPORT_UNSERVED = Chore(
    name="unserved",
    make=lambda needs: UnservedReporter(needs.unserved),
    shortest=15,
    longest=60,
    woken_by=(Channel.LEADER,),
)
