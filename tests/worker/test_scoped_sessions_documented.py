"""The page about SQLAlchemy's sessions is run as it stands: no session outlives its attempt."""

import pytest

from borrowed.test_documented import as_url
from support.doc_examples import run_page


def test_a_scoped_session_that_is_removed_leaves_no_connection_in_use(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_DSN", as_url(dsn))
    run_page("how-to/sqlalchemy-sessions.md", monkeypatch)
