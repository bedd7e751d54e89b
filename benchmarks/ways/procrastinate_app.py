"""As its quick start has it: `procrastinate --app=benchmarks.ways.procrastinate_app.app worker`."""

from procrastinate import App, PsycopgConnector

from benchmarks.ways.counted import tally

app = App(connector=PsycopgConnector())


@app.task(name="send_receipt")
async def send_receipt(sent: int, user_id: int, template: str, note: str) -> None:  # noqa: ARG001  # a no-op
    tally.add()
