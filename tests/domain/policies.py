"""Backoff policies of every sort, for tests that hold for all of them."""

from datetime import timedelta

from hypothesis import strategies as st

from holdfast.domain.backoff import DEFAULT, Backoff, Exponential, Fixed, Listed, Polynomial

YEAR = timedelta(days=365)

lengths = st.timedeltas(timedelta(), YEAR)
lucks = st.floats(0, 1, exclude_max=True)
backoffs: st.SearchStrategy[Backoff] = st.one_of(
    st.just(DEFAULT),
    st.builds(
        Exponential,
        st.timedeltas(timedelta(microseconds=1), YEAR),
        st.floats(1, 1e300),
        lengths,
        st.floats(0, 1),
    ),
    st.builds(Fixed, lengths),
    st.builds(Listed, st.lists(lengths, min_size=1, max_size=5).map(tuple)),
    st.builds(Polynomial, st.floats(0, 10), lengths, lengths),
)
