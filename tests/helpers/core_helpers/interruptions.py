"""What a signal's handler does, at any point of what its own thread is doing, made to happen at a certain one."""

from __future__ import annotations

import dis
import gc
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import compressed_array

SOURCES = str(Path(compressed_array.__file__).parent)


class Interruption:
    """Calls `handler` at the nth point of the package's code that Python itself may call one at.

    That is after a call, at the beginning of a function, and where a loop goes back. Later `where` says which point it
    was, and `left` is above 0 if there were not so many.
    """

    def __init__(self, nth: int, handler: Callable[[], None], *, sources: tuple[str, ...] = (SOURCES,)) -> None:
        self.left, self._handler, self._sources = nth, handler, sources
        self.where = ""
        self._was_at: dict[Any, str] = {}  # of each frame, the last instruction

    def __enter__(self) -> Interruption:
        self._before, self._collects = sys.gettrace(), gc.isenabled()
        gc.disable()  # what an interrupt in a finalizer raises goes nowhere, and which one is run when is chance
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)
        if self._collects:
            gc.enable()
        self._was_at.clear()

    def _trace(self, frame: Any, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.startswith(self._sources):
            return None
        frame.f_trace_opcodes = True
        if event == "call":
            self._was_at[frame] = "RESUME"  # of which Python tells by this event alone
        elif event == "opcode":
            before, now = self._was_at.get(frame, ""), dis.opname[frame.f_code.co_code[frame.f_lasti]]
            self._was_at[frame] = now
            # Not where a call has raised: Python goes on to what handles that, and looks for signals there.
            self.left -= before.startswith(("CALL", "RESUME", "JUMP_BACKWARD")) and now != "PUSH_EXC_INFO"
            if self.left == 0:
                self.left = -1
                sys.settrace(None)
                self.where = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
                self._handler()
        return self._trace
