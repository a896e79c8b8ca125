"""What the docstrings of a package's public names have to say: what each argument is, and an example that runs."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
import re
from collections.abc import Collection, Iterator
from dataclasses import is_dataclass
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any

from compressed_array import registry

PACKAGES = {"compressed_array", "compressed_array_sb3", "compressed_array_sbx", "compressed_array_torch"}
SECTION = re.compile(r"^Args:\n((?:(?: {4}.*)?\n)*)", re.MULTILINE)
REFERENCE = re.compile(r"all (?:other )?arguments of ((?:`\w+`(?:, | and )?)+)")
VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def public_modules(package: ModuleType) -> list[str]:
    """The names of a package and of the public modules in it, those included that cannot be imported here."""
    found = pkgutil.walk_packages(package.__path__, f"{package.__name__}.", onerror=lambda name: None)
    names = [info.name for info in found if not any(part.startswith("_") for part in info.name.split("."))]
    return [package.__name__, *names]


def modules_with_examples(package: ModuleType) -> list[str]:
    """The names of a package's modules in which a docstring has an example."""
    folder = Path(str(package.__file__)).parent
    files = [file for file in sorted(folder.rglob("*.py")) if ">>>" in file.read_text()]
    names = [".".join((package.__name__, *file.relative_to(folder).with_suffix("").parts)) for file in files]
    return [name.removesuffix(".__init__") for name in names]


def check_examples(module: str) -> None:
    """Runs all examples in the docstrings of a module; a codec that one of them registers is forgotten."""
    before = dict(registry._registered)
    found = doctest.testmod(importlib.import_module(module))
    registry._registered.clear()
    registry._registered.update(before)
    assert found.attempted
    assert not found.failed


def gaps(module: str, exceptions: Collection[str] = ()) -> list[str]:
    """What the docstrings of the functions, classes and methods lack that a module names as public.

    :param exceptions: names, as `function` or `Class.method`, that are not looked at
    """
    return [f"{name}: {gap}" for name, thing in public(module) if name not in exceptions for gap in lacks(thing)]


def public(module: str) -> Iterator[tuple[str, Any]]:
    """Yields the functions and classes of its package that a module names as public, and methods of the latter.

    Those are in `__all__`, or are all that a package without one has imported.
    """
    found = importlib.import_module(module)
    imported = [name for name in vars(found) if not name.startswith("_")] if hasattr(found, "__path__") else []
    for name in getattr(found, "__all__", imported):
        thing = getattr(found, name, None)
        if not inspect.isfunction(thing) and not inspect.isclass(thing):
            continue
        if thing.__module__.partition(".")[0] != module.partition(".")[0]:
            continue
        yield name, thing
        if inspect.isclass(thing):
            yield from ((f"{name}.{method.__name__}", method) for method in methods(thing))


def methods(kind: type) -> Iterator[Any]:
    """Yields a class' own public methods, but those that stand for a base's and take what is described there."""
    for name, value in vars(kind).items():
        method = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        if not inspect.isfunction(method) or name.startswith(("_", "test_")):
            continue
        bases = [base for base in kind.__mro__[1:] if name in vars(base)]
        if not bases or (method.__doc__ and is_ours(bases[0])):
            yield method


def lacks(thing: Any) -> Iterator[str]:
    """Yields what a docstring does not say."""
    doc, given = docstring(thing), arguments(thing)
    if not doc:
        yield "has no docstring"
    missing = [name for name in given if name not in described(thing)]
    if missing:
        yield f"does not say what {', '.join(missing)} is"
    if given and inspect.isfunction(thing) and "." not in thing.__qualname__ and ">>>" not in doc:
        yield "has no example"


def arguments(thing: Any) -> list[str]:
    """The names of a function's arguments, or of those that a class takes by constructors of these packages."""
    if inspect.isfunction(thing):
        return [name for name in inspect.signature(thing).parameters if name not in ("self", "cls", "_")]
    # What these are made of is for whoever reads it, not for whoever makes one.
    if issubclass(thing, Enum) or is_dataclass(thing) or hasattr(thing, "_fields"):
        return []
    names: list[str] = []
    for base in filter(is_ours, thing.__mro__):
        make = vars(base).get("__init__") or vars(base).get("__new__")
        if make is not None:
            parameters = list(inspect.signature(make).parameters.values())[1:]
            names += [part.name for part in parameters if part.kind not in VARIABLE]
            if not any(part.kind in VARIABLE for part in parameters):  # or the rest is another's
                break
    return list(dict.fromkeys(names))


def described(thing: Any) -> set[str]:
    """The arguments that a docstring names, with those that bases name themselves to which it refers."""
    docs = [docstring(thing)]
    names = [name for reference in REFERENCE.findall(docs[0]) for name in re.findall(r"\w+", reference)]
    if isinstance(thing, type):
        docs += [docstring(base) for base in thing.__mro__[1:] if base.__name__ in names]
    sections = [section for doc in docs for section in SECTION.findall(f"{doc}\n")]
    return {name for section in sections for name in re.findall(r"^ {4}(\w+): ", section, re.MULTILINE)}


def docstring(thing: Any) -> str:
    return inspect.cleandoc((vars(thing).get("__doc__") if isinstance(thing, type) else thing.__doc__) or "")


def is_ours(kind: type) -> bool:
    return kind.__module__.partition(".")[0] in PACKAGES
