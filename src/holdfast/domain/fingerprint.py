"""Which failures are the same problem: those with one fingerprint form a group.

A fingerprint is made of the exception's type, its message without what differs from job to job, and the
innermost function of the user's own code. Line numbers are left out, so that an edited file keeps its groups.
"""

import re
from dataclasses import replace
from hashlib import blake2b

from holdfast.domain.failure import Code, Failure, storable
from holdfast.domain.traceback_frames import Frame, own_frame

PATTERN_LIMIT = 200
FRAME_LIMIT = 200

# Holdfast says these itself, in sentences that tell nothing about the job: its kind tells more.
_BY_CODE: frozenset[Code | str] = frozenset({"timeout", "lease_lost", "stale_timeout", "deadline_expired"})

# Each begins where a word or a quote begins, so that a long word is looked at once and not from each letter.
_VARYING = re.compile(
    r"""
      (?<!\w)(?P<url>[A-Za-z][A-Za-z0-9+]{0,15}://[^\s'"<>]++)
    | (?<![\w.+-])(?P<email>[\w.+-]++@[\w-]++(?:\.[\w-]++)++)
    | (?<!\w)(?P<id>[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}(?!\w) | 0[xX][0-9a-fA-F]++)
    | (?<!\w)(?P<time>
        \d{4}-\d\d-\d\d(?:[T\ ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:\ ?Z|\ ?[+-]\d\d:?\d\d)?)?(?!\w)
        | \d?\d:\d\d:\d\d(?:[.,]\d+)?(?!\w))
    | (?<![\w./\\-])(?P<path>
        (?:[A-Za-z]:|~|\.{1,2})?(?:[/\\][\w.@+~%-]++)++[/\\]?
        | [\w.-]++(?:[/\\][\w.-]++){2,}+)
    | (?<!\w)(?P<text>'[^'\n]*+'(?!\w) | "[^"\n]*+" | `[^`\n]*+` | “[^“”\n]*+” | «[^«»\n]*+»)
    | (?P<word>(?:(?<!\w)[-+](?=\d))?(?:[^\W\d_]++|\d++(?:[.,]\d++)*+(?:[eE][-+]\d++)?+)++)
    """,
    re.VERBOSE,
)
_NUMBER = re.compile(r"[-+]?\d+(?:[.,]\d+)*")
_EXPONENT = re.compile(r"[-+]?\d+(?:[.,]\d+)*[eE][-+]?\d+")
_HEX = re.compile(r"[0-9a-fA-F]{12,}")
_LISTED = re.compile(r"(<\w+>)(?:[,;\s]+\1)+")
_SPACE = re.compile(r"\s+")


def pattern_of(message: str) -> str:
    """A message with a placeholder for each number, id, quoted text, path, address and time in it."""
    text = _VARYING.sub(_placeholder, message)
    return _LISTED.sub(r"\1", _SPACE.sub(" ", text)).strip()[:PATTERN_LIMIT]


def fingerprint_of(
    *,
    kind: str,
    code: str,
    type: str | None,  # noqa: A002  # what it is
    message: str,
    frame: Frame | None,
) -> str:
    """16 hexadecimal digits. A failure that comes from no function of the user has its kind instead."""
    if code in _BY_CODE:
        parts = [code, kind]
    else:
        parts = [type or code, pattern_of(message), kind if frame is None else shown_frame(frame)]
    whole = "\0".join(storable(part) for part in parts)
    return blake2b(whole.encode(), digest_size=8).hexdigest()


def identified(failure: Failure, kind: str) -> Failure:
    """The same failure with its fingerprint. Secrets must have been masked in it before."""
    frame = own_frame(failure.traceback) if failure.traceback else None
    fingerprint = fingerprint_of(
        kind=kind,
        code=failure.code or "handler_error",
        type=failure.type,
        message=failure.message,
        frame=frame,
    )
    return replace(failure, fingerprint=fingerprint, frame=None if frame is None else shown_frame(frame))


def shown_frame(frame: Frame) -> str:
    """Without its folder, which may be another one on each host and after each deploy."""
    name = re.split(r"[/\\]", frame.file)[-1]
    return f"{frame.function} in {name}"[:FRAME_LIMIT]


def _placeholder(found: re.Match[str]) -> str:
    if found.lastgroup == "word":
        return _without_numbers(found[0])
    return f"<{found.lastgroup}>"


def _without_numbers(word: str) -> str:
    """A word that mixes letters and digits like an id is one as a whole: `cus_9s6XKzkNRiz8i3`. What is judged
    does not change with the length of a number: `order12345` is `order` and a number, as `order1` is.
    """
    if not any(character.isdigit() for character in word):
        return word
    if _EXPONENT.fullmatch(word) or _HEX.fullmatch(word):
        return "<n>"
    short, numbers = _NUMBER.subn("0", word)
    is_mixed_case = not short.islower() and not short.isupper()
    if (numbers > 1 and len(short) >= 6) or (is_mixed_case and len(short) >= 12):  # noqa: PLR2004  # as ids are
        return "<n>"
    return _NUMBER.sub("<n>", word)
