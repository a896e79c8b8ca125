"""`compressed-array bench`: reads and writes by some codecs beside those of a plain array.

A write is one step of all streams, a read a batch of random items. The contenders take turns, so that a machine which
is slow for a while is slow for all of them, and what is shown are medians. Of writes there is the mean as well: some
codecs put work off, and do it for many steps at once.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from math import prod
from statistics import fmean, median
from typing import Annotated, Any

import numpy as np
import typer

import compressed_array as ca
from compressed_array._cli.failures import DataError
from compressed_array._cli.measured import (
    Codecs,
    EnvId,
    Envs,
    ItemNdim,
    Seed,
    SourceFile,
    Steps,
    asked_codec,
    source,
)
from compressed_array._cli.output import AsJson, counted, progress, say, say_json, say_table
from compressed_array._cli.sources import Part
from compressed_array.codecs._measure import usable
from compressed_array.registry import shorthand
from compressed_array.usage import size

USUAL = ("auto", "delta", "delta-zstd", "zstd-3", "lz4-block/0", "gzip1")
PLAIN = "numpy"
MOST_BYTES = 2**27  # of a stream; what is longer is cut
# What is not counted, since the first calls compile, or load what was compiled: rounds of reads, and steps.
WARM_UP, WARM_UP_STEPS = 2, 256


@dataclass
class Contender:
    """An array, and how long each write and read took."""

    name: str
    array: Any
    writes: list[float] = field(default_factory=list)
    reads: list[float] = field(default_factory=list)

    def read(self, key: Any) -> Any:
        return self.array.read(key) if isinstance(self.array, ca.CompressedArray) else self.array[key]


def bench(
    file: SourceFile = None,
    env: EnvId = None,
    envs: Envs = 4,
    steps: Steps = 1000,
    seed: Seed = 0,
    item_ndim: ItemNdim = None,
    codec: Codecs = None,
    batch: Annotated[int, typer.Option(min=1, help="Items in a read.")] = 32,
    rounds: Annotated[int, typer.Option(min=1, help="Number of reads per codec.")] = 100,
    as_json: AsJson = False,
) -> None:
    """Times reads and writes, beside those of plain numpy.

    A write is one step of all streams, a read a batch of random items.
    """
    codecs = [asked_codec(name) for name in codec] if codec else usable(USUAL)
    _, parts = source(file, env, envs, steps, seed, item_ndim, quiet=as_json)
    answers = []
    for part in parts:
        stream = _as_steps(part)
        _write(_made(stream[:WARM_UP_STEPS], codecs), stream[:WARM_UP_STEPS], quiet=True)
        contenders = _made(stream, codecs)
        _write(contenders, stream, quiet=as_json)
        _read(contenders, stream, batch, rounds, seed, quiet=as_json)
        answers.append({"name": part.name, "items": prod(stream.shape[:2]), "item_shape": list(stream.shape[2:])})
        answers[-1] |= {"dtype": str(stream.dtype), "contenders": [_figures(c, contenders[0]) for c in contenders]}
    if as_json:
        say_json({"file": file and str(file), "env": env, "batch": batch, "rounds": rounds, "parts": answers})
        return
    for answer in answers:
        if answer is not answers[0]:
            say()
        _show(answer, batch, rounds)


def _as_steps(part: Part) -> Any:
    """Returns the items of an array as (steps, streams, *item)."""
    array = part.sample
    items = array.shape[array.ndim - part.item_ndim :]
    grid = array.shape[: array.ndim - part.item_ndim]
    streams = grid[-1] if len(grid) > 1 else 1
    most = max(MOST_BYTES // max(prod(items) * array.itemsize * streams, 1), 1)
    return np.ascontiguousarray(array.reshape(-1, streams, *items)[:most])


def _made(stream: Any, codecs: list[Any]) -> list[Contender]:
    item_ndim = stream.ndim - 2
    made = [Contender(PLAIN, np.zeros_like(stream))]
    for codec in codecs:
        name = codec if isinstance(codec, str) else shorthand(codec)
        made.append(Contender(name, ca.zeros(stream.shape, stream.dtype, item_ndim=item_ndim, codec=codec)))
    return made


def _write(contenders: list[Contender], stream: Any, *, quiet: bool) -> None:
    with progress("writing", len(stream), quiet=quiet) as advance:
        for number, step in enumerate(stream):
            for contender in contenders:
                start = time.perf_counter()
                contender.array[number] = step
                contender.writes.append(time.perf_counter() - start)
            advance()


def _read(contenders: list[Contender], stream: Any, batch: int, rounds: int, seed: int, *, quiet: bool) -> None:
    rng = np.random.default_rng(seed)
    with progress("reading", WARM_UP + rounds, quiet=quiet) as advance:
        for number in range(WARM_UP + rounds):
            key = tuple(rng.integers(0, length, batch) for length in stream.shape[:2])
            wanted = stream[key].tobytes() if number < WARM_UP else b""
            for contender in contenders:
                start = time.perf_counter()
                items = contender.read(key)
                seconds = time.perf_counter() - start
                if number >= WARM_UP:
                    contender.reads.append(seconds)
                elif items.tobytes() != wanted:
                    raise DataError(f"{contender.name} read other items than were written; please report this")
            advance()


def _figures(contender: Contender, plain: Contender) -> dict[str, Any]:
    array = contender.array
    write, read = median(contender.writes), median(contender.reads)
    return {
        "codec": contender.name,
        "nbytes_stored": getattr(array, "nbytes_stored", array.nbytes),
        "ratio": float(getattr(array, "ratio", 1.0)),
        "write_seconds": write,
        "mean_write_seconds": fmean(contender.writes),
        "write_to_plain": write / max(median(plain.writes), 1e-12),
        "read_seconds": read,
        "read_to_plain": read / max(median(plain.reads), 1e-12),
    }


def _show(answer: dict[str, Any], batch: int, rounds: int) -> None:
    name, items = (f"{answer['name']}: " if answer["name"] else ""), tuple(answer["item_shape"])
    say(f"{name}{counted(answer['items'], 'item')} of {items} {answer['dtype']}", "bold")
    header = ("codec", "held", "smaller", "write µs", "mean µs", "to numpy", "read µs", "to numpy")
    rows = [
        (
            c["codec"],
            size(c["nbytes_stored"]),
            f"{c['ratio']:,.1f}x",
            f"{c['write_seconds'] * 1e6:,.1f}",
            f"{c['mean_write_seconds'] * 1e6:,.1f}",
            f"{c['write_to_plain']:,.2f}x",
            f"{c['read_seconds'] * 1e6:,.1f}",
            f"{c['read_to_plain']:,.2f}x",
        )
        for c in answer["contenders"]
    ]
    say_table(header, rows)
    reads = f"{counted(rounds, 'read')} of {counted(batch, 'random item')}"
    say(f"Medians of writes of a step, and of {reads} at once.")
    say("The mean of the writes has in it what a codec puts off for later.")
