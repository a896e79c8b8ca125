"""Making calls that reach for an array's memory, on a compressed array and on the plain one, in a child that may crash.

A call is *right* if it gives, and leaves behind, what it does with the plain array, and *refused* if it raises and
changes nothing; or if it gives something that raises when it is looked at. Anything else is wrong: a plausible value, a
changed array, a crash, a call that does not come back.

A table of calls is a dict of functions in a module; each is called with an array and `Things` to call it with.
"""

from __future__ import annotations

import faulthandler
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import compressed_array as ca

HELPERS = str(pathlib.Path(__file__).parents[1])

# Shape, dtype, axes of the item, codec: labels, rows, a buffer with two environments, what has one cell or none.
KINDS: dict[str, tuple[tuple[int, ...], str, int, str]] = {
    "labels": ((9,), "i8", 0, "gzip"),
    "a stream of numbers": ((9,), "f8", 0, "delta"),
    "rows": ((4, 6), "f8", 1, "gzip"),
    "a buffer": ((5, 2, 3, 4), "u1", 2, "delta"),
    "a view": ((4, 6), "f8", 1, "delta"),
    "a protected view": ((4, 6), "f8", 1, "gzip"),
    "one item": ((6,), "f8", 1, "gzip"),
    "one cell": ((1,), "f8", 0, "delta"),
    "no axes": ((), "i8", 0, "gzip"),
    "no cells": ((0, 3), "f8", 1, "gzip"),
}


class Things:
    """What a call may need beside the array: others like it, and a folder."""

    def __init__(self, kind: str, folder: pathlib.Path, *, compressed: bool) -> None:
        shape, dtype, self._item_ndim, self._codec = KINDS[kind]
        self._kind, self._compressed, self.folder = kind, compressed, folder
        values = np.arange(int(np.prod(shape)), dtype=dtype).reshape(shape)
        self.array, self.other = self._made(np.array(values + 3)), self._made(np.array((values + 3) * 2))
        self.bytes = self.content(self.other)
        self.path = folder / "file"
        self.path.write_bytes(self.bytes * 2)

    def _made(self, values: Any) -> Any:
        # Not `np.asarray`, which would not notice a compressed array.
        whole = ca.compress(values, item_ndim=self._item_ndim, codec=self._codec) if self._compressed else values.copy()
        part = whole[1:3] if "view" in self._kind else whole
        if "protected" in self._kind:
            part.flags.writeable = False
        return part

    @staticmethod
    def content(array: Any) -> bytes:
        return bytes(array.read().tobytes() if isinstance(array, ca.CompressedArray) else array.tobytes())

    def rng(self) -> np.random.Generator:
        return np.random.default_rng(7)


Call = Callable[[Any, Things], Any]


def settled(value: Any) -> Any:
    """A value as something that can be compared; looking into what only seems to be a value raises."""
    if isinstance(value, ca.CompressedArray):
        value = value.read()
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            return "array", value.shape, bool(np.all(value == value)) and settled(value.tolist())
        return "array", value.shape, value.dtype.str, value.tobytes()
    if isinstance(value, np.generic):
        return settled(value.item())
    if isinstance(value, list | tuple):
        return [settled(part) for part in value]
    if isinstance(value, dict):
        return [settled(part) for part in value.items()]
    if isinstance(value, memoryview | bytearray):
        return bytes(value)
    return value if isinstance(value, bytes | str | int | float | complex | None) else repr(value)


def outcome(call: Call, kind: str) -> str:
    """What becomes of a call: "right", "refused: ..." or "WRONG: ..."."""
    with tempfile.TemporaryDirectory() as folder:
        plain = Things(kind, pathlib.Path(folder), compressed=False)
        try:
            expected = settled(call(plain.array, plain))
        except Exception as error:
            expected = error
    with tempfile.TemporaryDirectory() as folder:
        things = Things(kind, pathlib.Path(folder), compressed=True)
        before = things.content(things.array)
        try:
            got = settled(call(things.array, things))
        except SystemError as error:
            return f"WRONG: {error!r}"
        except Exception as error:
            now, answer = before, f"refused: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        else:
            now, answer = things.content(plain.array), "right"
            if isinstance(expected, Exception):
                return f"WRONG: gives {got!r:.80} where the plain array raises {expected!r:.80}"
            if got != expected:
                return f"WRONG: gives {got!r:.80}, not {expected!r:.80}"
        if things.content(things.array) != now:
            return "WRONG: changed what the array holds"
        if things.content(things.other) != things.bytes:
            return "WRONG: changed what another array holds"
        if things.array.flags.writeable:
            things.array[...] = things.other
            if things.content(things.array) != things.bytes:
                return "WRONG: the array cannot be written to any more"
    return answer


def outcomes(module: str, kind: str, calls: list[str]) -> dict[str, str]:
    """What becomes of calls in a module's table; a child that dies is a wrong outcome of the call it died of."""
    answers: dict[str, str] = {}
    while calls:
        child = subprocess.run(
            [sys.executable, "-m", "core_helpers.calls_through_c", module, kind, *calls],
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | {"PYTHONPATH": os.pathsep.join([HELPERS, os.environ.get("PYTHONPATH", "")])},
        )
        for line in child.stdout.splitlines():
            name, answer = json.loads(line)
            answers[name] = answer
        begun = calls[len([name for name in calls if name in answers]) :]
        if begun and child.returncode:
            last = [line for line in child.stderr.splitlines() if line.strip()][:1]
            answers[begun[0]] = f"WRONG: the process ended with {child.returncode}: {' '.join(last)}"
        calls = begun[1:]
    return answers


def table_in(path: str) -> dict[str, Call]:
    """The table of calls in a file."""
    spec = importlib.util.spec_from_file_location("table", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    table: dict[str, Call] = module.CALLS
    return table


def wrong(answers: dict[str, str]) -> dict[str, str]:
    return {name: answer for name, answer in answers.items() if answer.startswith("WRONG")}


def print_table(module: str) -> None:
    """All calls with all kinds of arrays, for people."""
    calls = table_in(module)
    answers = {kind: outcomes(module, kind, list(calls)) for kind in KINDS}
    for name in calls:
        by_answer: dict[str, list[str]] = {}
        for kind in KINDS:
            by_answer.setdefault(answers[kind][name], []).append(kind)
        print(name)  # noqa: T201 - a report for people
        for answer, kinds in by_answer.items():
            print(f"    {answer[:110]:110}  {', '.join(kinds) if len(by_answer) > 1 else 'always'}")  # noqa: T201 - the same


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # what other libraries deprecate
    table = table_in(sys.argv[1])
    for name in sys.argv[3:]:
        faulthandler.dump_traceback_later(60, exit=True)
        print(json.dumps([name, outcome(table[name], sys.argv[2])]), flush=True)  # noqa: T201 - to the parent
    faulthandler.cancel_dump_traceback_later()
