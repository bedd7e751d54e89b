"""Errors and advice are written for Python and for the command line alike. Where they name what only Python
has, an operator reads what the command line calls it.
"""

import re

_WORDS = tuple(
    (re.compile(written), spoken)
    for written, spoken in (
        (r"app\.\w+(?:\.\w+)?\(\) or (?=\"?holdfast )", ""),  # both are named
        (r"pass create=True", "give --create"),
        (r"use force to", "give --force to"),
        (r"app\.(\w+)\.list\(\)", r'"holdfast \1 list"'),
        (r"app\.handle\((\d+)\)\.status\(\)", r'"holdfast jobs show \1"'),
        (r"app\.jobs\.(\w+)\((\d+)\)", r'"holdfast jobs \1 \2"'),
    )
)


def spoken(sentence: str) -> str:
    for written, said in _WORDS:
        sentence = written.sub(said, sentence)
    return sentence
