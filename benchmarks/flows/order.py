"""The flow that every system is given: so many steps, each a coroutine that gives a few bytes."""

from benchmarks.peers.peer import Handle

STEPS = 10

CLIENTS = 16
"""Of absurd-sdk in one process: each has one connection."""


async def step(handle: Handle, number: int) -> dict[str, int]:
    await handle(0)
    return {"step": number, "cents": 1_200}
