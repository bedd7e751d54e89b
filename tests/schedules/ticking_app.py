"""An app whose only job ticks five times a second, for workers in processes of their own."""

from datetime import timedelta

from holdfast import App, Context

PERIOD = timedelta(milliseconds=200)

app = App()


@app.schedule(every=PERIOD, missed="every")
@app.job
async def tick(ctx: Context) -> None:
    assert ctx.plan is not None
