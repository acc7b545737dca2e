"""The typer application: every command, and what the exit status is."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from . import bench, devices, embed, inspect, parity, run, tokens

app = typer.Typer(
    name="rushlight",
    help="Run GGUF language models on this machine's GPU or CPU. Nothing leaves the machine.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="markdown",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import PackageNotFoundError, version

        try:
            typer.echo(f"rushlight {version('rushlight')}")
        except PackageNotFoundError:  # run from the source tree
            typer.echo("rushlight (not installed)")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print it."),
    ] = False,
) -> None:
    """Run GGUF language models on this machine's GPU or CPU. Nothing leaves the machine."""


app.command("run")(run.run_command)
app.command("devices")(devices.devices_command)
app.command("inspect")(inspect.inspect_command)
app.command("tokenize")(tokens.tokenize_command)
app.command("embed")(embed.embed_command)
app.command("logits")(tokens.logits_command)
app.command("parity")(parity.parity_command)
app.command("bench")(bench.bench_command)


def run_app(arguments: list[str]) -> int:
    """Run one command and return its exit status; EngineError passes through."""
    command = typer.main.get_command(app)
    assert isinstance(command, TyperGroup)
    try:
        status: Any = command.main(arguments, prog_name="rushlight", standalone_mode=False)
    except typer.Abort as error:
        raise KeyboardInterrupt from error
    except Exception as error:
        # A usage error knows how to show itself; its class moved between typer's versions.
        if not (hasattr(error, "show") and hasattr(error, "exit_code")):
            raise
        error.show()
        return int(error.exit_code)
    return status if isinstance(status, int) else 0
