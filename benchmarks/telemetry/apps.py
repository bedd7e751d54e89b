"""The apps whose jobs are measured with and without spans: `holdfast worker -A benchmarks.telemetry.apps:…`.

Spans are made by the SDK as a program sets it up, and thrown away where they would be sent: what a collector
takes is no cost of a job.
"""

from benchmarks.telemetry.sdk import to_nowhere
from benchmarks.ways.bodies import PAY
from benchmarks.ways.counted import tally
from holdfast import App, Context
from holdfast.integrations.opentelemetry import Tracing

provider = to_nowhere()

receipts = App()
traced_receipts = App(middleware=[Tracing(provider)])
payments = App()
traced_payments = App(middleware=[Tracing(provider)])


async def send_receipt(sent: int, user_id: int, template: str, note: str) -> None:  # noqa: ARG001  # a no-op
    tally.add()


async def pay(ctx: Context, number: int) -> None:
    tally.add()
    async with ctx.transaction() as conn:
        await conn.execute(PAY, {"number": number})


receipts.job(send_receipt)
traced_receipts.job(send_receipt)
payments.job(pay)
traced_payments.job(pay)
