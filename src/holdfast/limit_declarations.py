"""The limits that an app declares: those that kinds of jobs share, and those of single kinds."""

from holdfast.codec.signature import Signature
from holdfast.domain.limits import Breaker, Hold, Limit, Rate
from holdfast.errors import InvalidInput
from holdfast.worker.kind_limits import KindLimits, named_limits, read_limits


class LimitDeclarations:
    """The part of an App that declares limits. Opens nothing."""

    def __init__(self) -> None:
        self.declared_limits: dict[str, Limit] = {}
        """By name: of `app.limit`, and those that are named after their kinds."""
        self._shared: dict[str, Limit] = {}

    def limit(
        self,
        name: str,
        *,
        per_key: int | None = None,
        total: int | None = None,
        rate: Rate | None = None,
        rate_per_key: Rate | None = None,
        turns: bool = False,
        breaker: Breaker | None = None,
        hold: Hold = "run",
    ) -> Limit:
        """A limit that several kinds of jobs share: `@app.job(limit=stripe.by("account_id"))`.

        per_key: how many jobs of a key run at once; total: how many of all keys. rate: how many start in a
        length of time; rate_per_key: of each key. turns: keys take turns. breaker: stop after failures. hold:
        "run" (the default) gives a permit back when a run ends, "job" when the job has ended. Opens nothing.
        The same limit for the same name and settings; other settings for a known name are refused.
        """
        made = Limit(
            per_key=per_key,
            total=total,
            rate=rate,
            rate_per_key=rate_per_key,
            turns=turns,
            breaker=breaker,
            hold=hold,
        ).called(name)
        if name in self.declared_limits and self._shared.get(name) != made:
            raise InvalidInput(
                f'another limit is called "{name}", and has other settings or is named after its job: '
                "declare it once and share what app.limit(…) returns, or give one of them another name"
            )
        self.declared_limits[name] = known = self._shared.setdefault(name, made)
        return known

    def _limits_of(self, given: object, kind: str, signature: Signature) -> KindLimits | None:
        """What a decorator was given as `limit`."""
        limits = named_limits(read_limits(given), self._shared, kind)
        for name, limit in limits.items():
            signature.check_names(limit.names, f'limit "{name}"')
        return KindLimits(limits.values(), kind, signature) if limits else None

    def _add_limits(self, limits: KindLimits | None) -> None:
        for name, limit in ({} if limits is None else limits.declared).items():
            self.declared_limits.setdefault(name, limit)
