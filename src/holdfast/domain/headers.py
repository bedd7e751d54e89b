"""Headers of a job: short texts that travel with it beside its arguments, such as a trace or a tenant. They
are a part of its origin.
"""

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from holdfast.domain.job import check_name
from holdfast.domain.origin import read_origin
from holdfast.errors import InvalidInput

LIMIT: Final = 8 * 1024
_NONE: Final[Mapping[str, str]] = MappingProxyType({})


def headers_of(origin: str | None) -> Mapping[str, str]:
    """Those of a job with this origin. What is not text, because it was written by hand, is left out."""
    found = read_origin(origin).get("headers")
    if not isinstance(found, dict):
        return _NONE
    return MappingProxyType({name: value for name, value in found.items() if isinstance(value, str)})


def with_headers(origin: str | None, headers: Mapping[str, str]) -> str | None:
    """The origin with these headers in place of its own."""
    check_headers(headers)
    rest = {name: value for name, value in read_origin(origin).items() if name != "headers"}
    if headers:
        rest["headers"] = dict(headers)
    return json.dumps(rest, ensure_ascii=False) if rest else None


def check_headers(headers: object) -> None:
    if not isinstance(headers, Mapping):
        raise InvalidInput(f"headers are {headers!r}: give a mapping from names to texts")
    for name, value in headers.items():
        check_name("header", name)
        if not isinstance(value, str):
            raise InvalidInput(f"header {name!r} is {value!r}: give text")
    size = len(json.dumps(dict(headers), ensure_ascii=False).encode("utf-8", "surrogatepass"))
    if size > LIMIT:
        raise InvalidInput(f"headers take {size:,} bytes, the limit is {LIMIT:,}: pass a reference instead")
