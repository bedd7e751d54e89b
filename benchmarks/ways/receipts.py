"""An app whose one job is a coroutine that does nothing: `holdfast worker -A benchmarks.ways.receipts:app`.

By itself, as the systems beside it have it: a worker runs more jobs at once than its default while all of its
app's jobs are coroutines that end at once.
"""

from benchmarks.ways.counted import tally
from holdfast import App

app = App()


@app.job
async def send_receipt(sent: int, user_id: int, template: str, note: str) -> None:  # noqa: ARG001  # a no-op
    tally.add()
