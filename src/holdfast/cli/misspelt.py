"""Names in options that nothing has: what operators are told in place of an empty answer alone."""

from holdfast.app import App
from holdfast.domain.job_filter import JobFilter


def misspelt(app: App, *, kind: str | None, queue: str | None) -> tuple[str, ...]:
    """Sentences about a kind or a queue that nothing is called, as a list of jobs has them."""
    if not kind and not queue:
        return ()
    job_filter = JobFilter(kinds=(kind,) if kind else (), queues=(queue,) if queue else ())
    return app.jobs.list_sync(job_filter, limit=1).hints
