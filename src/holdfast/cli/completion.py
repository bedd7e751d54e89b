"""`holdfast completion`: what makes the shell complete commands and options."""

import click
from click.shell_completion import get_completion_class

_VARIABLE = "_HOLDFAST_COMPLETE"
_INSTALL = {
    "bash": ("Add this line to ~/.bashrc:", 'eval "$(holdfast completion bash)"'),
    "zsh": ("Add this line to ~/.zshrc, below compinit:", 'eval "$(holdfast completion zsh)"'),
    "fish": ("Run this once:", "holdfast completion fish > ~/.config/fish/completions/holdfast.fish"),
}


@click.command()
@click.argument("shell", type=click.Choice(list(_INSTALL)))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a script that completes commands and options in your shell, and how to install it."""
    made = get_completion_class(shell)
    assert made is not None  # noqa: S101  # click has one for each of these shells
    click.echo(made(ctx.find_root().command, {}, "holdfast", _VARIABLE).source().strip())
    # Behind the script: zsh reads its first line.
    for line in _INSTALL[shell]:
        click.echo(f"# {line}")
