"""Connection strings: what is read, what is refused and why, and that no password is ever repeated."""

import os
import traceback
from contextlib import suppress
from datetime import timedelta
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg.conninfo import conninfo_to_dict

from holdfast.errors import InvalidConnectionString, InvalidInput, UnsupportedScheme
from holdfast.postgres.dsn import Dsn
from holdfast.postgres.options import KINDS, PoolOptions, PoolSettings

pytestmark = pytest.mark.requirement("S2.1")


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://mia:s%40fe@db.example:5433/shop",
        "postgres://mia:s%40fe@db.example:5433/shop",
        "POSTGRESQL://mia:s%40fe@db.example:5433/shop",
        "host=db.example port=5433 user=mia password=s@fe dbname=shop",
        "host = 'db.example' port=5433 user=mia password='s@fe' dbname=shop ",
    ],
)
def test_urls_and_pairs_mean_the_same(text: str) -> None:
    params = Dsn.parse(text).params
    assert {name: params[name] for name in ("host", "port", "user", "password", "dbname")} == {
        "host": "db.example",
        "port": "5433",
        "user": "mia",
        "password": "s@fe",
        "dbname": "shop",
    }


@pytest.mark.parametrize("text", ["", "   ", "\n"])
def test_an_empty_string_is_said_to_be_empty(text: str) -> None:
    with pytest.raises(InvalidConnectionString, match="is empty: use postgresql://"):
        Dsn.parse(text)


@pytest.mark.parametrize("text", ["shop", "host", "=", "host='open", "nohost=x", "postgresql://h/d?wrong=1"])
def test_what_libpq_cannot_read_is_an_invalid_connection_string(text: str) -> None:
    with pytest.raises(InvalidConnectionString, match="cannot be read"):
        Dsn.parse(text)


@pytest.mark.parametrize("text", ["embeded", "Embedded", "embeded:/srv/shop/.holdfast"])
def test_a_misspelt_private_server_is_recognised(text: str) -> None:
    with pytest.raises(InvalidConnectionString, match='did you mean "embedded"'):
        Dsn.parse(text)


@pytest.mark.parametrize("scheme", ["mysql", "postgresql+psycopg", "redis", "http"])
def test_a_url_of_another_database_has_an_error_of_its_own(scheme: str) -> None:
    with pytest.raises(UnsupportedScheme) as raised:
        Dsn.parse(f"{scheme}://mia:hunter2@h/d")
    assert raised.value.scheme == scheme
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("postgresql://mia:hunter2/shop", "not a number"),
        ("postgresql://mia:hun/ter2@h/shop", "%2F"),
        ("postgresql://mia:hun@hunter2@h/shop", "%40"),
        ("postgresql://mia:hunter2%zz@h/shop", "cannot be read"),
        ("host=h port=hunter2", "not a number"),
        ("host=h port=0", "not a number"),
        ("host=h port=65536", "not a number"),
        ("host=h password=a hunter2", "cannot be read"),
    ],
)
def test_a_slip_of_the_pen_is_explained_without_repeating_it(text: str, hint: str) -> None:
    with pytest.raises(InvalidConnectionString, match=hint) as raised:
        Dsn.parse(text)
    assert "hunter2" not in "".join(traceback.format_exception(raised.value))


@pytest.mark.requirement("S2.2")
@pytest.mark.parametrize(
    "text",
    [
        "postgresql://h/d?pool_max_conns=7&sslmode=prefer&pool_max_conn_lifetime=1h%2030m&pool_timeout=2s",
        "pool_max_conns=7 host=h dbname=d pool_max_conn_lifetime='1h 30m' sslmode=prefer pool_timeout = 2s",
    ],
)
def test_the_pools_options_are_read_and_not_shown_to_libpq(text: str) -> None:
    dsn = Dsn.parse(text)
    assert dsn.options == PoolOptions(pool_max_conns=7, pool_max_conn_lifetime="90m", pool_timeout="2s")
    assert dsn.params["sslmode"] == "prefer"
    assert not set(conninfo_to_dict(dsn.conninfo("x"))) & set(KINDS)


@pytest.mark.requirement("S2.2")
def test_a_question_mark_in_a_password_begins_no_options() -> None:
    dsn = Dsn.parse("postgresql://mia:a?pool_max_conns=1@h/d?pool_min_conns=0")
    assert dsn.params["password"] == "a?pool_max_conns=1"
    assert dsn.options == PoolOptions(pool_min_conns=0)


@pytest.mark.requirement("S2.2")
@pytest.mark.parametrize(
    ("option", "takes"),
    [
        ("pool_max_conns=0", "pool_max_conns takes a whole number, 1 or more"),
        ("pool_max_conns=ten", "pool_max_conns takes a whole number, 1 or more"),
        ("pool_min_conns=-1", "pool_min_conns takes a whole number, 0 or more"),
        ("pool_max_conn_lifetime=0s", "pool_max_conn_lifetime takes a length of time"),
        ("pool_max_conn_lifetime=60", "pool_max_conn_lifetime takes a length of time"),
        ("pool_timeout=400d", "pool_timeout takes a length of time such as .* at most 365d"),
        ("idle_in_transaction_timeout=25d", 'at most 24d, or "0" for unlimited'),
    ],
)
def test_a_wrong_option_is_named_with_what_it_takes(option: str, takes: str) -> None:
    with pytest.raises(InvalidConnectionString, match=takes):
        Dsn.parse(f"postgresql://h/d?{option}")
    with pytest.raises(InvalidConnectionString, match=takes):
        Dsn.parse(f"host=h {option}")


@pytest.mark.requirement("S2.2")
def test_arguments_win_over_the_string_and_the_string_over_the_defaults() -> None:
    dsn = Dsn.parse("host=h pool_max_conns=7 pool_timeout=5s")
    settings = PoolSettings.choose(PoolOptions(pool_timeout="1m"), dsn.options)
    assert settings.pool_timeout == timedelta(minutes=1)
    assert settings.pool_max_conns == 7
    assert settings.pool_min_conns == PoolSettings().pool_min_conns


def test_zero_is_unlimited_where_that_has_a_meaning() -> None:
    options = PoolOptions(idle_in_transaction_timeout="0", reply_timeout=timedelta())
    assert options.idle_in_transaction_timeout == options.reply_timeout == timedelta()


@pytest.mark.parametrize("value", [True, 1.5, "x", -1, 0])
def test_an_argument_is_checked_as_the_string_is(value: object) -> None:
    with pytest.raises(InvalidInput, match="pool_max_conns takes"):
        PoolOptions(pool_max_conns=value)  # type: ignore[arg-type]  # the point of the test


def test_no_minimum_is_above_the_maximum() -> None:
    with pytest.raises(InvalidInput, match="pool_min_conns is 5, more than pool_max_conns, which is 2"):
        PoolSettings.choose(PoolOptions(pool_min_conns=5, pool_max_conns=2))


def test_several_hosts_and_their_wanted_role_reach_libpq() -> None:
    dsn = Dsn.parse("postgresql://a:1,b:2/d?target_session_attrs=read-write&pool_max_conns=3")
    params = conninfo_to_dict(dsn.conninfo("x"))
    assert (params["host"], params["port"]) == ("a,b", "1,2")
    assert params["target_session_attrs"] == "read-write"
    assert dsn.where == "a:1,b:2/d"


def test_a_black_hole_is_noticed_unless_the_user_chose_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PGCONNECT_TIMEOUT", raising=False)
    params = Dsn.parse("host=h tcp_user_timeout=5000 keepalives=0").params
    assert (params["connect_timeout"], params["tcp_user_timeout"], params["keepalives"]) == (
        "10",
        "5000",
        "0",
    )
    monkeypatch.setitem(os.environ, "PGCONNECT_TIMEOUT", "3")
    assert "connect_timeout" not in Dsn.parse("host=h").params


def test_a_session_is_called_after_its_purpose_unless_the_user_named_it() -> None:
    assert "holdfast/listener" in Dsn.parse("host=h").conninfo("listener")
    named = conninfo_to_dict(Dsn.parse("host=h application_name=mine").conninfo("listener"))
    assert named["application_name"] == "mine"


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused_with_our_error(text: str) -> None:
    for candidate in (text, f"postgresql://{text}", f"host=h {text}", f"postgresql://h/d?{text}"):
        with suppress(InvalidConnectionString):
            Dsn.parse(candidate)


_secrets = st.text(
    st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=12
).map(lambda text: f"Zq{text}qZ")


def _shown(text: str) -> str:
    try:
        dsn = Dsn.parse(text)
    except InvalidConnectionString as error:
        return str(error)
    return repr(dsn) + dsn.where + dsn.without_secrets(f"libpq said {dsn.params.get('password')}")


@given(_secrets, st.sampled_from(["", "?pool_max_conns=x", "?wrong=1", "?port=p", "%zz", "?sslmode=prefer"]))
def test_no_password_is_repeated_whatever_is_wrong_beside_it(secret: str, tail: str) -> None:
    quoted = secret.replace("\\", "\\\\").replace("'", "\\'")
    for text in (
        f"postgresql://mia:{quote(secret, safe='')}@h/d{tail}",
        f"postgresql://mia:{secret}@h/d{tail}",
        f"host=h password='{quoted}' {tail[1:]}",
        f"host=h password={secret} {tail[1:]}",
    ):
        shown = _shown(text)
        assert "Zq" not in shown
        assert "qZ" not in shown


@given(_secrets)
def test_a_password_comes_out_as_it_went_in(secret: str) -> None:
    quoted = secret.replace("\\", "\\\\").replace("'", "\\'")
    for text in (
        f"postgresql://mia:{quote(secret, safe='')}@h/d?pool_max_conns=2",
        f"host=h pool_max_conns=2 password='{quoted}'",
    ):
        dsn = Dsn.parse(text)
        assert dsn.params["password"] == secret
        assert conninfo_to_dict(dsn.conninfo("x"))["password"] == secret
