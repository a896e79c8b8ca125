"""A constant's name means one thing in all of the package: two modules with other values of it would be confused."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import compressed_array

PACKAGE = Path(compressed_array.__file__).parent
# The names that stand for one thing of each of several kinds, and at the end some that should be told apart.
SEVERAL = {
    "__all__": "each module's own",
    "KIND": "what each kind of file is called in messages",
    "MAGIC": "what each kind of file begins with",
    "SECTIONS": "what a file has of each kind of store",
    "LARGEST_RECORD": "how much each codec takes",
    "MOST_EXPANSION": "how much each codec can make of a byte",
    "LARGEST_SEGMENT": "of the heap on the host, and of the one on a device",
    "SMALLEST_SEGMENT": "likewise",
    "_pool": "the process's pool of memory, and its pool of threads",
    "T": "a type variable",
    "MOST_BYTES": "of a benchmark's stream, of a file to measure, and of a device's first items",
    "PLAIN": "numpy's row in the table of `bench`, and what usage shows where there is no codec",
    "USUAL": "the codecs that `bench` compares, and the ratios that a device's estimate expects",
    "WARM_UP": "rounds of a benchmark, and steps of a stream",
}


def constants() -> Iterator[tuple[str, str, str]]:
    """The names that modules give to values, each with the value as it is written and the module."""
    for file in sorted(PACKAGE.rglob("*.py")):
        for node in ast.parse(file.read_text()).body:
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            value = getattr(node, "value", None)
            for target in targets:
                if isinstance(target, ast.Name) and value is not None:
                    yield target.id, ast.unparse(value), str(file.relative_to(PACKAGE))
                elif isinstance(target, ast.Tuple) and value is not None:
                    parts = value.elts if isinstance(value, ast.Tuple) else []
                    texts = [*map(ast.unparse, parts)] or [
                        f"{ast.unparse(value)}[{i}]" for i in range(len(target.elts))
                    ]
                    names = [part.id for part in target.elts if isinstance(part, ast.Name)]
                    yield from ((n, text, str(file.relative_to(PACKAGE))) for n, text in zip(names, texts, strict=True))


def test_a_name_has_one_value() -> None:
    values: dict[str, dict[str, str]] = defaultdict(dict)
    for name, value, module in constants():
        values[name][value] = module
    several = {name: sorted(modules.values()) for name, modules in values.items() if len(modules) > 1}
    assert {name: modules for name, modules in several.items() if name not in SEVERAL} == {}
    assert set(SEVERAL) <= set(several), "and every exemption is needed"
    assert values["WRITTEN"].keys() == {"-1"}  # of two in one statement
    assert values["DEAD"].keys() == {"range(6)[1]"}  # of six
