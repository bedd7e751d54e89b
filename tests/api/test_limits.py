"""`limit=`: what a job has to pass, and what is refused when it is declared or enqueued."""

from collections.abc import Callable
from typing import Any

import pytest

from holdfast import App, Breaker, Call, Context, Done, Flow, Limit, Machine, Rate, Secret, Step, Use
from holdfast.domain.limit_use import LimitUse
from holdfast.errors import InvalidInput

NOWHERE = "postgresql://127.0.0.1:1/nowhere"


@pytest.fixture
def apart() -> App:
    """An App without a database: neither declaring nor making a call looks for one."""
    return App(NOWHERE)


def uses(call: Call[Any]) -> tuple[LimitUse, ...]:
    return call.job.limits


def test_kinds_share_a_limit_and_each_names_its_own_parameters(apart: App) -> None:
    stripe = apart.limit("stripe", per_key=5, total=100)

    @apart.job(limit=stripe.by("account_id"))
    async def charge(account_id: str, cents: int) -> None: ...

    @apart.flow(limit=stripe.by("customer"))
    async def refund(flow: Flow, customer: int) -> None: ...

    assert uses(charge.call("acme", 5)) == (LimitUse("stripe", "acme"),)
    assert uses(refund.call(7)) == (LimitUse("stripe", "7"),)
    assert list(apart.declared_limits) == ["stripe"]


def test_a_limit_of_its_own_is_named_after_its_kind(apart: App) -> None:
    @apart.job(name="mail.send", limit=Limit(key="to", per_key=1, hold="job"))
    async def send(to: str) -> None: ...

    @apart.job(limit=Limit(total=3))
    async def render() -> None: ...

    assert uses(send.call("ada")) == (LimitUse("mail.send", "ada"),)
    assert uses(render.call()) == (LimitUse("render"),)
    assert set(apart.declared_limits) == {"mail.send", "render"}


def test_two_limits_are_passed_in_the_order_of_their_names(apart: App) -> None:
    stripe, cpu = apart.limit("stripe", per_key=5), apart.limit("cpu", total=8)

    @apart.job(limit=[stripe.by("account"), cpu])
    async def charge(account: str) -> None: ...

    assert uses(charge.call("acme")) == (LimitUse("cpu"), LimitUse("stripe", "acme"))


def test_a_job_without_limits_is_as_plain_as_before(apart: App) -> None:
    @apart.job
    async def plain(account: str) -> None: ...

    @apart.job(limit=Limit(total=1))
    async def limited(account: str) -> None: ...

    assert (plain.call("acme").job.is_plain, plain.call("acme").job.limits) == (True, ())
    assert not limited.call("acme").job.is_plain


def test_options_of_one_job_keep_its_limits(apart: App) -> None:
    @apart.job(limit=Limit(key="account", per_key=1))
    async def charge(account: str) -> None: ...

    for using in (charge.using(delay="1m"), charge.using(priority=1), charge.using(unique=["account"])):
        assert uses(using.call("acme")) == (LimitUse("charge", "acme"),)


def test_one_job_may_bring_its_key_and_its_cost(apart: App) -> None:
    stripe = apart.limit("stripe", per_key=5, rate=Rate(100, per="1s", burst=500))
    cpu = apart.limit("cpu", total=8)

    @apart.job(limit=[stripe.by("account"), cpu])
    async def charge(account: str | None = None) -> None: ...

    both = charge.using(limit={stripe: Use(key="acme", cost=350), "cpu": Use(cost=2)})
    assert uses(both.call()) == (LimitUse("cpu", "", 2), LimitUse("stripe", "acme", 350))
    assert uses(charge.using(limit={stripe: Use(cost=7)}).call("b")) == (
        LimitUse("cpu"),
        LimitUse("stripe", "b", 7),
    )
    assert uses(charge.using(limit={stripe.by("account"): Use(key="c"), cpu: Use()}).call()) == (
        LimitUse("cpu"),
        LimitUse("stripe", "c"),
    )


def test_a_default_is_the_key_of_a_call_that_leaves_it_out(apart: App) -> None:
    @apart.job(limit=Limit(key=["account", "region"], per_key=1))
    async def charge(account: str, region: str = "eu") -> None: ...

    assert (
        uses(charge.call("acme"))
        == uses(charge.call("acme", "eu"))
        == (LimitUse("charge", '["acme", "eu"]'),)
    )


def test_the_order_of_a_set_does_not_matter(apart: App) -> None:
    @apart.job(limit=Limit(key="accounts", per_key=1))
    async def merge(accounts: set[str]) -> None: ...

    names = [f"account-{number}" for number in range(20)]
    assert uses(merge.call(set(names)))[0].key == "[" + ", ".join(f'"{name}"' for name in sorted(names)) + "]"


def test_a_machine_counts_by_the_fields_of_its_first_step(apart: App) -> None:
    @apart.machine(limit=Limit(key="account", per_key=1))
    class Import(Machine[None]):
        class Start(Step):
            account: str

            async def run(self) -> Done[None]:
                return Done(None)

        class Other(Step):
            async def run(self) -> Done[None]:
                return Done(None)

    assert uses(Import.call(Import.Start("acme"))) == (LimitUse("Import", "acme"),)
    with pytest.raises(InvalidInput, match=r"Import counts against .* by its account, and nothing"):
        Import.call(Import.Other())


def test_a_secret_key_is_not_readable(apart: App) -> None:
    @apart.job(limit=Limit(key="api_key", per_key=1))
    async def fetch(api_key: str) -> None: ...

    @apart.job(limit=Limit(key="account", per_key=1))
    async def pay(account: str, pin: Secret[str]) -> None: ...

    [use] = uses(fetch.call("s3cret-s3cret"))
    assert use.key.startswith("sha256:")
    [quoting] = uses(pay.using(limit={"pay": Use(key="acme-s3cret-s3cret")}).call("acme", "s3cret-s3cret"))
    assert quoting.key.startswith("sha256:")
    assert uses(pay.call("acme", "s3cret-s3cret")) == (LimitUse("pay", "acme"),)


BAD: dict[str, Callable[[App], Any]] = {
    r"limit is 5: give Limit\(…\), a limit of app\.limit": lambda _: 5,
    r"limit is 'stripe': give Limit": lambda _: "stripe",
    r"limit is \[5\]": lambda _: [5],
    r"limit is a list of 3: a job has 2 limits at most": lambda app: [
        app.limit(name, total=8) for name in ("cpu", "disk", "mail")
    ],
    r'charge is given limit "cpu" twice': lambda app: [app.limit("cpu", total=8)] * 2,
    r'given limit "stripe" twice': lambda app: [
        app.limit("stripe", per_key=1).by("account"),
        app.limit("stripe", per_key=1).by("cents"),
    ],
    r'given limit "charge" twice': lambda _: [Limit(total=1), Limit(total=2)],
    r'limit "stripe" counts for each key, and charge does not say .*limit=….by\("account_id"\)': (
        lambda app: app.limit("stripe", per_key=1)
    ),
    r'limit "charge" counts for each key, .*such as key="account_id"': lambda _: Limit(turns=True),
    r'limit "stripe" names .acount. \(did you mean account\?\), which is not a parameter of charge': (
        lambda app: app.limit("stripe", per_key=1).by("acount")
    ),
    r'limit "foreign" is not one of this app: make it with app\.limit': lambda _: App(NOWHERE).limit(
        "foreign", total=8
    ),
    r'would be named after it, and app\.limit\("charge"\) has that name': lambda app: [
        app.limit("charge", total=2),
        Limit(total=1),
    ],
}


@pytest.mark.parametrize("problem", list(BAD))
def test_a_bad_limit_is_refused_at_decoration(apart: App, problem: str) -> None:
    limit = BAD[problem](apart)
    with pytest.raises(InvalidInput, match=problem):

        @apart.job(limit=limit)
        async def charge(account: str, cents: int) -> None: ...

    assert apart.declared_kinds == {}


def test_a_field_that_no_step_has_is_refused(apart: App) -> None:
    with pytest.raises(InvalidInput, match=r"names acount, and no step of Import has .*: Start has account"):

        @apart.machine(limit=Limit(key="acount", per_key=1))
        class Import(Machine[None]):
            class Start(Step):
                account: str

                async def run(self) -> Done[None]:
                    return Done(None)


def test_the_context_is_no_key(apart: App) -> None:
    @apart.job(limit=Limit(key="ctx", per_key=1))
    async def charge(ctx: Context, account: str) -> None: ...

    with pytest.raises(InvalidInput, match=r"names 'ctx', which is not .* charge: it takes account"):
        apart.check()
    with pytest.raises(InvalidInput, match="names 'ctx'"):
        charge.call("acme")


def test_one_name_is_one_limit(apart: App) -> None:
    stripe = apart.limit("stripe", per_key=5, breaker=Breaker())
    assert apart.limit("stripe", per_key=5, breaker=Breaker()) == stripe
    with pytest.raises(InvalidInput, match='another limit is called "stripe"'):
        apart.limit("stripe", per_key=6)

    @apart.job(limit=Limit(total=3))
    async def render() -> None: ...

    with pytest.raises(InvalidInput, match=r'another limit is called "render", .* named after its job'):
        apart.limit("render", total=3)
    for name in ("", "a\nb", 5):
        with pytest.raises(InvalidInput, match="limit"):
            apart.limit(name, total=3)  # type: ignore[arg-type]  # as an untyped caller may


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (5, r"limit is 5: give \{a limit: Use\(key=…, cost=…\)\} for limits of charge"),
        ({"mail": Use()}, 'charge has no limit "mail": it has "charge", "cpu"'),
        ({5: Use()}, "limit names 5: give a limit of app.limit"),
        ({"cpu": 5}, r'limit "cpu": 5 is no Use\('),
        ({"cpu": Use(key="acme")}, "limit \"cpu\" has no keys: leave key='acme' out"),
    ],
)
def test_a_bad_use_is_refused_before_anything_is_enqueued(apart: App, given: Any, problem: str) -> None:
    @apart.job(limit=[Limit(key="account", per_key=1), apart.limit("cpu", total=1)])
    async def charge(account: str) -> None: ...

    with pytest.raises(InvalidInput, match=problem):
        charge.using(limit=given)


def test_a_job_without_limits_cannot_use_one(apart: App) -> None:
    @apart.job
    async def plain() -> None: ...

    with pytest.raises(InvalidInput, match=r"plain has no limits: give it some with @app\.job\(limit=…\)"):
        plain.using(limit={"stripe": Use()})


def test_a_job_without_its_key_is_not_enqueued(apart: App) -> None:
    @apart.job(limit=Limit(key="account", per_key=1))
    async def charge(account: str | None = None) -> None: ...

    for account in (None, ""):
        with pytest.raises(InvalidInput, match='charge counts against limit "charge" by its account'):
            charge.call(account)
    with pytest.raises(InvalidInput, match="nothing was given for it"):
        charge.call()
