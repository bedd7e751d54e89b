"""A job's parameters as JSON Schema, for forms and for other languages."""

from typing import Any, cast

import msgspec

from holdfast.codec.json_hooks import is_model
from holdfast.codec.round_trip import field_names


def json_schema(record: type[msgspec.Struct]) -> dict[str, Any]:
    """Of the record that holds all arguments. Types that have no schema are left open."""
    try:
        schema: dict[str, Any] = msgspec.json.schema(record, schema_hook=_schema_of)
    except Exception:  # noqa: BLE001  # schemas of the user's types run the user's code
        names = field_names(record) or ()
        return {"type": "object", "properties": {name: {} for name in names}}
    return schema


def _schema_of(kind: type) -> dict[str, Any]:
    if is_model(kind):
        return cast("dict[str, Any]", cast("Any", kind).model_json_schema())
    return {}
