"""Every state that a job can be in and every outcome that a run can have, and which of them are final.

They are plain text: the database answers them as text, users compare them with text, and JSON shows them as
text. Nothing is converted on the way, and mypy refuses a comparison with a word that is not listed here.
A test compares these lists with the schema; "Add a state" in CONTRIBUTING.md says what else to change.
"""

from typing import Literal, get_args

ActiveState = Literal["gated", "ready", "scheduled", "waiting", "running"]
"""The job is in the table of that name; a running one is in `lease`, a gated one in `ready_gated`."""

FinalState = Literal["succeeded", "failed", "cancelled", "expired"]
"""The job's last run has this outcome, and the job never changes again, unless it failed and an operator
retries or resumes it.
"""

JobState = Literal[ActiveState, FinalState, "lost"]
"""What the view `jobs` shows. A lost job is in no table at all: its row was deleted by hand."""

ContinuingOutcome = Literal["retried", "snoozed", "released"]
"""The run ended, but the job did not."""

RunOutcome = Literal[FinalState, ContinuingOutcome]
"""What the ledger says of a run: the enum `outcome` of the schema."""

EndedAs = Literal[RunOutcome, "unknown"]
"""How `JobEnded` says that a job or a run ended; `unknown`: the job is gone."""

FINAL_STATES: frozenset[FinalState] = frozenset(get_args(FinalState))
JOB_STATES: tuple[JobState, ...] = get_args(JobState)
RUN_OUTCOMES: tuple[RunOutcome, ...] = get_args(RunOutcome)


def final_state(word: object) -> FinalState | None:
    """The word as a final state, or None: a job that has not ended, or a record that was damaged by hand."""
    return next((state for state in FINAL_STATES if state == word), None)
