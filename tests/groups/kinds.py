"""Jobs that tests put into groups, and jobs that follow them and keep what they are told."""

from dataclasses import dataclass

from holdfast import App, Context, EndedGroup, Job, Retry

ONCE = Retry(max_attempts=1)


@dataclass(frozen=True)
class Kinds:
    """`work` doubles a number, and fails for one below zero. `told` is what the others were told."""

    work: Job[[int], int]
    report: Job[[str], str]
    alarm: Job[[], str]
    told: list[tuple[str, EndedGroup | None]]

    @classmethod
    def of(cls, app: App) -> "Kinds":
        told: list[tuple[str, EndedGroup | None]] = []

        @app.job(retry=ONCE)
        async def work(number: int) -> int:
            if number < 0:
                raise ValueError("below zero")
            return 2 * number

        @app.job(retry=ONCE)
        async def report(ctx: Context, title: str) -> str:
            told.append(("report", ctx.group))
            assert ctx.group is not None
            return f"{title}: {ctx.group.counts.succeeded} of {ctx.group.counts.members}"

        @app.job(retry=ONCE)
        async def alarm(ctx: Context) -> str:
            told.append(("alarm", ctx.group))
            return "rung"

        return cls(work, report, alarm, told)
