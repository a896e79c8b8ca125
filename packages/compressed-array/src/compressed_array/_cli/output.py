"""All that the command line shows: text and tables of at most the terminal's width, JSON, and progress.

What was asked for goes to the standard output, everything else to the standard error. Colours and progress bars are
for terminals only.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Protocol

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

CODE_WIDTH = 78  # of code that is to be pasted, with two spaces in front in a terminal of 80

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


class Advance(Protocol):
    """What is called whenever some of the work is done."""

    def __call__(self, steps: int = 1) -> None: ...


def say(text: str = "", style: str = "") -> None:
    """Prints text as it is: nothing in it is markup, and lines are not broken."""
    Console().print(Text(text, style), soft_wrap=True)


def complain(text: str) -> None:
    """Prints an error on the standard error, in one line; for a person at a terminal, broken between words."""
    line, console = " ".join(text.split()), Console(stderr=True)
    console.print(Text.assemble(("compressed-array: ", "bold red"), line), soft_wrap=not console.is_terminal)


def say_json(answer: Any) -> None:
    """Prints an answer for programs."""
    sys.stdout.write(json.dumps(answer, indent=2, allow_nan=False) + "\n")


def say_table(header: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> None:
    """Prints a table whose first `left` columns are words, and the others numbers.

    Where it is wider than the terminal, names are on lines of their own, before the rest of their rows.
    """
    console = Console()
    widths = [max(len(row[number]) for row in [header, *rows]) for number in range(len(header))]
    is_wide = sum(widths) + 2 * (len(widths) - 1) > console.width
    if is_wide:
        names, header, rows, widths = [row[0] for row in rows], header[1:], [row[1:] for row in rows], widths[1:]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for number, (name, width) in enumerate(zip(header, widths, strict=True)):
        justify: Any = "left" if number < left - is_wide else "right"
        widest = width if number == 0 and not is_wide else None  # names are never cut
        table.add_column(name, justify=justify, no_wrap=True, overflow="ellipsis", min_width=widest)
    for row in rows:
        table.add_row(*(Text(word) for word in row))
    with console.capture() as captured:
        console.print(table)
    lines = [line.rstrip() for line in captured.get().splitlines()]
    if is_wide:
        lines[1:] = [line for name, line in zip(names, lines[1:], strict=True) for line in (name, line)]
    console.file.write("".join(f"{line}\n" for line in lines))


def call(function: str, arguments: Sequence[str]) -> str:
    """Returns code that calls a function, broken between arguments where it would be too long for a line."""
    lines, indent = [f"{function}("], " " * (len(function) + 1)
    for number, argument in enumerate(arguments):
        word = argument + (")" if number == len(arguments) - 1 else ",")
        is_first = lines[-1].endswith("(") or not lines[-1].strip()
        if not is_first and len(lines[-1]) + 1 + len(word) > CODE_WIDTH:
            lines.append(indent)
            is_first = True
        lines[-1] += word if is_first else f" {word}"
    return "\n".join(lines)


def counted(count: int, noun: str, nouns: str = "") -> str:
    """Returns a number of things in words: "1 step", "2,000 steps"; `nouns` is a plural that is not made by an s."""
    return f"{count:,} {noun if count == 1 else nouns or f'{noun}s'}"


def with_article(noun: str) -> str:
    """Returns a noun with "a" or "an" before it."""
    return f"{'an' if noun[:1].lower() in tuple('aeio') else 'a'} {noun}"


@contextmanager
def progress(what: str, total: int, *, quiet: bool = False) -> Iterator[Advance]:
    """Shows a bar on the standard error while something is done, if that is a terminal."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda steps=1: None
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(what, total=total)

        def advance(steps: int = 1) -> None:
            bar.advance(task, steps)

        yield advance
