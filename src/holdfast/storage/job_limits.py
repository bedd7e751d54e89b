"""What a job has to pass, as it is stored with it."""

from typing import NamedTuple

from holdfast.domain.limit_use import LimitUse
from holdfast.postgres.schema import Schema
from holdfast.postgres.statement import Statement
from holdfast.storage.statements import statement


class JobLimits(NamedTuple):
    limits: list[str]
    limit_keys: list[str]
    limit_costs: list[int]

    @property
    def uses(self) -> tuple[LimitUse, ...]:
        return tuple(map(LimitUse, self.limits, self.limit_keys, self.limit_costs))


_OF_JOB = statement("job_limits", JobLimits, is_repeatable=True)


def limits_of_job(schema: Schema, job: int) -> Statement[JobLimits]:
    """No row: it has none, or is gone."""
    return _OF_JOB.with_params(schema, job=job)
