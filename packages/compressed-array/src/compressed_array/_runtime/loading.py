"""Where machine code is asked for: `native` gives a module of kernels, or None where numba is missing or does not work.

Importing such a module compiles its kernels, under Python's import locks and numba's compiler lock. A child that is
forked meanwhile inherits those locks as held, by a thread it does not have. So whatever is imported late is imported
by this module, under one lock, and a fork waits for it.

A signal's handler that raises during an import leaves the library half imported: numba does not import again in that
process. Handlers run in the main thread, so imports do not: see `undisturbed`.
"""

from __future__ import annotations

import _thread
import atexit
import gc
import importlib
import logging  # also for its fork hook, see below
import os
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, TypeVar

T = TypeVar("T")
lock = threading.RLock()
_found: dict[str, ModuleType | None] = {}


def load(module: str) -> Any:
    """Returns a module, imported so that a fork in another thread waits for it and no signal's handler cuts it off.

    Whatever is wrong with it is an ImportError: any other is a handler's, and its caller's business.
    """
    found = sys.modules.get(module)
    if found is not None and not getattr(getattr(found, "__spec__", None), "_initializing", False):
        return found
    package = module.partition(".")[0]
    # If a handler asks for what its own thread is importing, another thread would wait for that for ever.
    is_begun = _is_called_from(lambda frame: frame.f_code.co_name == "<module>" and _package(frame) == package)
    return undisturbed(partial(_import, module), here=is_begun)


def undisturbed(do: Callable[[], T], *, here: bool = False) -> T:
    """Returns what `do` returns, or raises what it raises, called under the lock where no signal's handler runs.

    An interrupt ends the waiting for it, and not what was begun: the next call for the same waits for that.
    """
    if here or threading.get_ident() != threading.main_thread().ident or lock._is_owned():  # type: ignore[attr-defined]  # undocumented; Python's own `Condition` asks it
        with lock:
            return do()
    given: list[T] = []
    errors: list[BaseException] = []
    is_over = _thread.allocate_lock()
    is_over.acquire()

    def work() -> None:
        try:
            with lock:
                given.append(do())
        except BaseException as error:
            errors.append(error)
        finally:
            is_over.release()

    _thread.start_new_thread(work, ())
    is_over.acquire()
    if errors:  # taken out, or this frame and the error would keep each other, and all frames that called this one
        raise errors.pop()
    return given[0]


def native(module: str) -> Any:
    """Returns a module of kernels by its name in the package; None without a numba that compiles."""
    if sys.modules.get("numba", ...) is None:  # how Python is told that a module must not be imported
        return None
    try:
        return _found[module]
    except KeyError:
        return _find(module)


def is_known(module: str) -> bool:
    """Whether `native` has found out about a module, or will not look for it."""
    return module in _found or sys.modules.get("numba", ...) is None


def kernel_modules() -> list[str]:
    """Returns the names, as `native` takes them, of all modules of kernels that this package has."""
    package = Path(__file__).parents[1]
    files = [*package.rglob("*_kernels.py"), *package.rglob("kernels/[!_]*.py")]
    return sorted(".".join(file.relative_to(package).with_suffix("").parts) for file in files)


def _import(module: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except (ImportError, MemoryError):
        raise
    except Exception as error:
        raise ImportError(f"{module} does not work: {error!r}", name=module) from error


def _find(module: str) -> ModuleType | None:
    # A handler that comes during numba's own work, under its locks, or during ours, does without kernels this once.
    if lock._is_owned() or _is_called_from(lambda frame: _package(frame) in ("numba", "llvmlite")):  # type: ignore[attr-defined]  # as above
        return _found.get(module)
    return undisturbed(partial(_import_kernels, module))


def _import_kernels(module: str) -> ModuleType | None:
    if module not in _found:
        # Little of all that numba makes while it compiles is garbage, and to look for some takes a tenth of the time.
        collects = gc.isenabled()
        gc.disable()
        try:
            _found[module] = importlib.import_module(f"compressed_array.{module}")
        except MemoryError:
            raise
        # Whatever is wrong with numba, or with what it makes of a kernel: nobody needs it but for speed.
        except Exception as error:
            if not isinstance(error, ImportError) and None not in _found.values():
                logging.getLogger("compressed_array").warning("numba is there and does not work: %r", error)
            _found[module] = None
        finally:
            if collects:
                gc.enable()
    return _found[module]


def _is_called_from(predicate: Callable[[FrameType], bool]) -> bool:
    """Whether `predicate` holds for any stack frame of Python's from the caller on upwards."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not predicate(frame):
        frame = frame.f_back
    return frame is not None


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _finish_imports() -> None:
    with lock:  # a library whose import is cut off by the end of the process may crash it
        pass


atexit.register(_finish_imports)
# What is registered last is called first. Importing numba takes logging's lock, and so may a compile: a fork has to
# wait for ours before logging's own hook takes that one. Likewise a store's hook, registered later, goes before this.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
