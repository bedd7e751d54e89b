"""Filters on the command line: `state:failed kind:pay`, in one argument or in several."""

from collections.abc import Sequence

from holdfast.domain.filter_parser import holds_term, parse_filter
from holdfast.domain.job_filter import JobFilter
from holdfast.errors import InvalidFilter


def read_filter(terms: Sequence[str]) -> JobFilter:
    """The filter that the shell has split into arguments. The shell takes quotes away: in an argument that
    cannot be read as it is, all behind the first colon is one value; unless a second term follows in there.
    """
    given = " ".join(terms)
    try:
        return parse_filter(given)
    except InvalidFilter as error:
        quoted = " ".join(_quoted(term) for term in terms)
        try:
            return parse_filter(quoted)
        except InvalidFilter:
            raise error from None


def _quoted(term: str) -> str:
    word, colon, value = term.partition(":")
    if not colon or not any(c.isspace() for c in value) or '"' in value or holds_term(value):
        return term
    return f'{word}:"{value}"'
