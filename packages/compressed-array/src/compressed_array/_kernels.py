"""Where machine code is asked for: `native` gives a module of kernels, or None where numba is missing or does not work.

Importing such a module compiles its kernels, under Python's import locks and numba's compiler lock. A child that is
forked meanwhile inherits those locks as held, by a thread it does not have. So whatever is imported late is imported
by this module, under one lock, and a fork waits for it.
"""

from __future__ import annotations

import importlib
import logging  # noqa: F401 - for its fork hook, see below
import os
import sys
import threading
from types import ModuleType
from typing import Any

lock = threading.RLock()
_found: dict[str, ModuleType | None] = {}


def load(module: str) -> Any:
    """Import a module, in a way that a fork in another thread waits for."""
    with lock:
        return importlib.import_module(module)


def native(module: str) -> Any:
    """A module of this package that needs a numba which compiles, by its name in the package; None without one."""
    if sys.modules.get("numba", ...) is None:  # how Python is told that a module must not be imported
        return None
    try:
        return _found[module]
    except KeyError:
        return _find(module)


def has_numba() -> bool:
    """Whether numba is there and compiles: `rle-jit` needs it, and batches of the other codecs are faster with it."""
    return native("_native") is not None


def _find(module: str) -> ModuleType | None:
    with lock:
        if module not in _found:
            try:
                _found[module] = importlib.import_module(f"compressed_array.{module}")
            # Whatever is wrong with numba, or with what it makes of a kernel: nobody needs it but for speed.
            except Exception:
                _found[module] = None
        return _found[module]


# What is registered last is called first. Importing numba takes logging's lock, and so may a compile: a fork has to
# wait for ours before logging's own hook takes that one. Likewise a store's hook, registered later, goes before this.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
