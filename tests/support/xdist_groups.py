"""Which process runs which test. Any may run any, one by one, as each has a server of its own."""

from xdist.scheduler import LoadScopeScheduling

# They share rows by the million, which are not to be made in every process.
TOGETHER = ("storage/test_query_plans.py", "flows/test_query_plans.py", "schedules/test_query_plans.py")


class Spreading(LoadScopeScheduling):  # type: ignore[misc]  # xdist ships no types
    def _split_scope(self, nodeid: str) -> str:
        """Tests of one answer go to one process. The largest groups are given out first."""
        file, _, _ = nodeid.partition("::")
        return file if file.endswith(TOGETHER) else nodeid
