"""A step of a flow: answered from its checkpoint, or run now and recorded."""

from collections.abc import Callable
from functools import partial
from typing import Any

from holdfast.domain.flow_path import full_name
from holdfast.errors import LeaseLost
from holdfast.flows.enclosing_step import inside
from holdfast.flows.replay import Replay
from holdfast.flows.step_runner import StepOptions, StepRunner, check_function, kept_failure
from holdfast.flows.step_values import Typed, Unkeepable, returned_by
from holdfast.worker.handler_requests import Cancel, EndWith, Snooze, snoozed_for


async def do_step(
    replay: Replay, steps: StepRunner, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any
) -> Any:
    """The keyword arguments are the function's, and the step's options among them."""
    check_function(f'step "{name}"', function)
    options = StepOptions.taken_from(function, kwargs)
    full = full_name(name, options.key)
    record, place = await replay.arrive(full, "step", is_new=options.is_new)
    typed = returned_by(function)
    if record is not None and record.is_done:
        if record.error is not None:
            raise kept_failure(record)
        return typed.decode(f'what step "{full}" gave', record.value)
    failures = record.failures if record is not None else 0
    if record is not None and record.left_to_wait:
        await replay.pause(full, record.left_to_wait, failures, record.error, place)
    try:
        with inside(replay, full):
            run = partial(steps.run, function, args, kwargs, options.timeout, is_isolated=options.is_isolated)
            value = await steps.within(full, run)
        text = typed.encode(f'what step "{full}" gave', value)
    except (LeaseLost, Cancel, EndWith):
        raise
    except Snooze as request:
        await replay.pause(full, snoozed_for(request), failures, None, place)
    except Unkeepable as error:
        # Never by the step's own retry: it has done its work, and would only do it again.
        await replay.fail(full, "step", error, failures=failures + 1, place=place)
    except Exception as error:  # noqa: BLE001  # it is kept, or raised to the flow
        replay.path.check()
        await replay.fail(full, "step", error, retry=options.retry, failures=failures + 1, place=place)
    await replay.keep(full, "step", text, place, failures=failures)
    return value


async def draw(replay: Replay, name: str, kind: str, typed: Typed, value: Any) -> Any:
    """A value that is drawn once, such as the time, and is the same in every run."""
    record, place = await replay.arrive(name, kind)
    if record is not None and record.is_done:
        return typed.decode(f'"{name}"', record.value)
    await replay.keep(name, kind, typed.encode(f'"{name}"', value), place)
    return value
