"""The payload of an event as it is stored."""

from typing import Any

from holdfast.codec.result import encoder, loses_number
from holdfast.domain.job import check_args_text
from holdfast.errors import InvalidInput


def payload_text(event: str, payload: Any) -> str | None:
    """As JSON; None for nothing. Whether it fits the type that a flow asks for is seen when that reads it."""
    if payload is None:
        return None
    try:
        text = encoder.encode(payload).decode()
        check_args_text(text)
        is_lossy = loses_number(payload, text)
    except Exception as error:  # a model of the user's may raise anything
        raise InvalidInput(f'the payload of event "{event}" cannot be written as JSON: {error}') from error
    if is_lossy:
        raise InvalidInput(
            f'the payload of event "{event}" holds NaN or infinity, which JSON has no number for: '
            "give None, or a text"
        )
    return text
