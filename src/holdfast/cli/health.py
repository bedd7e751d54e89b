"""`holdfast health`: what the probes of a worker on this machine say, for probes that run a command."""

import json
import urllib.error
import urllib.request
from typing import Final

import click

from holdfast.cli.exit_codes import Exit
from holdfast.cli.options import WholeNumber
from holdfast.cli.shared_options import json_option

_SECONDS: Final = 5.0
_PROXYLESS: Final = urllib.request.ProxyHandler({})


@click.command()
@click.option(
    "--port",
    type=WholeNumber(1, 65535),
    default=9464,
    show_default=True,
    help="The worker's --metrics-port.",
)
@click.option("--host", default="127.0.0.1", metavar="ADDRESS", show_default=True, help="Where it is served.")
@click.option("--ready", is_flag=True, help="Ask whether it takes jobs, and not whether it works.")
@json_option
def health(*, port: int, host: str, ready: bool, as_json: bool) -> int:
    """Ask a running worker whether it works.

    It asks /healthz, or /readyz, of a worker that was started with --metrics-port, and no database. Exit
    code 5: it does not work, or nobody answers within 5 seconds.
    """
    is_ok, reasons = _asked(host, port, "readyz" if ready else "healthz")
    if as_json:
        click.echo(json.dumps({"ok": is_ok, "reasons": reasons}))
    elif is_ok:
        click.echo("ready" if ready else "healthy")
    else:
        click.echo("\n".join(reasons))
    return Exit.OK if is_ok else Exit.UNHEALTHY


def _asked(host: str, port: int, path: str) -> tuple[bool, list[str]]:
    where = f"http://{f'[{host}]' if ':' in host else host}:{port}/{path}"
    try:
        # Not by way of a proxy that the environment names: the worker is on this machine.
        with urllib.request.build_opener(_PROXYLESS).open(where, timeout=_SECONDS) as answer:
            text = answer.read()
    except urllib.error.HTTPError as refused:
        with refused:
            text = refused.read()
    except OSError as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        return False, [f"no worker answers at {where}: {getattr(reason, 'strerror', None) or reason}"]
    try:
        verdict = json.loads(text)
        return bool(verdict["ok"]), [str(reason) for reason in verdict["reasons"]]
    except (ValueError, TypeError, LookupError):
        return False, [f"what answers at {where} is no worker: start one with --metrics-port {port}"]
