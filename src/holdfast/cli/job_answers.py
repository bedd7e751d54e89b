"""What became of each job that an operator acted on: sentences for people, JSON for programs, exit codes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import click

from holdfast.cli.exit_codes import Exit
from holdfast.cli.formats import as_json as told_as_json

_DONE = {
    "cancelled": "job {job} is cancelled",
    "requested": "job {job} is running, and was asked to stop",
    "retried": "job {job} runs again from its start, with all attempts",
    "resumed": "job {job} continues where it stopped, with one more attempt",
    "changed": "job {job} has priority {to}",
    "rescheduled": "job {job} runs {to}",
    "moved": 'job {job} is in the queue "{to}"',
    "deleted": "job {job} is deleted",
    "enqueued": "job {job} runs again as job {to}",
}
_NOT_DONE = {
    "unknown": "there is no job {job}",
    "busy": "job {job} is held by another transaction, or is moving: try again",
    "final": "job {job} has already ended",
    "duplicate": "job {job} is left as it is: another active job holds its unique key",
    "too_late": "job {job} is left as it is: its deadline would come first",
    "awaited": "job {job} is left as it is: a flow waits for it, so cancel the flow first",
    "running": "job {job} is left as it is: it is running, so cancel it first",
    "waiting": "job {job} is left as it is: it is a flow that waits, so cancel it first",
}
_ENDED = {"succeeded": "has succeeded", "cancelled": "was cancelled", "expired": "has expired"}


@dataclass(frozen=True, slots=True)
class JobAnswer:
    """`answer` is a word for programs. `new_job` is what a rerun has enqueued."""

    job: int
    answer: str
    sentence: str
    new_job: int | None = None

    @property
    def is_done(self) -> bool:
        return self.answer in _DONE


def answer_of(job: int, answer: str, *, to: object = "") -> JobAnswer:
    """`to`: the new time, queue, priority or job that the sentence names."""
    sentence = (_DONE | _NOT_DONE).get(answer, f"job {{job}}: {answer}").format(job=job, to=to)
    return JobAnswer(job, answer, sentence, to if answer == "enqueued" and isinstance(to, int) else None)


def not_failed(job: int, state: str) -> JobAnswer:
    """A job that cannot be retried or resumed, since it has not failed."""
    advice = f"; run it again as a new job with: holdfast jobs rerun {job}" if state in _ENDED else ""
    sentence = f"job {job} {_ENDED.get(state, f'is {state}')}: only failed jobs can be retried or resumed"
    return JobAnswer(job, "not_failed", f"{sentence}{advice}")


def answers_of(jobs: Sequence[int], answers: Mapping[int, str], *, to: object = "") -> list[JobAnswer]:
    """In the order in which the operator named them."""
    return [answer_of(job, answers[job], to=to) for job in dict.fromkeys(jobs)]


def tell(answers: Sequence[JobAnswer], *, as_json: bool) -> Exit:
    """On stdout, the failed ones too: they are the answer. 3 if no job exists, 1 if any was not done."""
    if as_json:
        click.echo(told_as_json(list(answers)))
    else:
        for answer in answers:
            click.echo(answer.sentence)
    if all(answer.answer == "unknown" for answer in answers):
        return Exit.NOT_FOUND
    return Exit.OK if all(answer.is_done for answer in answers) else Exit.FAILED
