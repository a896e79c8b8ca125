"""The program `compressed-array`: its commands, its version and its help."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

import compressed_array as ca
from compressed_array._cli import INTERRUPTED, bench, codecs, convert, inspect, recommend, verify
from compressed_array._cli.failures import USAGE, reported
from compressed_array._cli.output import complain, say

NAME = "compressed-array"

app = typer.Typer(
    name=NAME,
    help="Arrays whose items are compressed, losslessly: which codec suits, what a file holds, whether it is sound.",
    epilog="Exit codes: 0 if all is well, 1 if something is wrong with the data, 2 for a usage error.",
    add_completion=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for command in (codecs.codecs, recommend.recommend, inspect.inspect, verify.verify, convert.convert, bench.bench):
    app.command()(reported(command))


def _show_version(asked: bool) -> None:
    if asked:
        say(f"{NAME} {ca.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


def run() -> int:
    """Runs the program with the arguments of this process, and returns its exit code."""
    try:
        code: Any = app(sys.argv[1:] or ["--help"], prog_name=NAME, standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except Exception as error:
        # The class is typer's own or click's, by the version of typer; both have these.
        if not hasattr(error, "format_message") or not hasattr(error, "exit_code"):
            raise
        context = getattr(error, "ctx", None)
        where = context.command_path if context is not None else NAME
        text = error.format_message()
        if text:
            complain(
                f"{text} See `{where} --help`" if text.endswith("?") else f"{text.rstrip('.')}; see `{where} --help`"
            )
        return int(error.exit_code)
    if len(sys.argv) < 2:
        return USAGE
    return code if isinstance(code, int) else 0
