"""The shop one deploy later: a parameter more, a kind more, a parameter less."""

from acceptance.shop import SHORT
from holdfast import App

app = App()


@app.job(retry=SHORT)
async def greet(name: str, language: str = "en") -> str:
    """`language` is new: old code does not know it."""
    return f"{'hei' if language == 'nb' else 'hello'} {name}"


@app.job(retry=SHORT)
async def wrap(gift: str) -> str:
    """The old one takes `ribbon` too."""
    return f"plain {gift}"


@app.job(retry=SHORT)
async def ship(parcel: int) -> int:
    """A kind that old code has never heard of."""
    return parcel
