"""Where a write to an array on a device may be interrupted: by a lack of memory, or by a user who presses Ctrl-C."""

from __future__ import annotations

from typing import Any

from compressed_array.torch import _frame_table, _frames, _heap, _host_lanes, _lanes, _pending
from compressed_array.torch._coders import delta, runs

FAULTS: list[tuple[Any, str]] = [
    (_frame_table.FrameTable, "take"),
    (_lanes.Streams, "new_frames"),
    (_lanes.Streams, "take"),
    (_lanes.Streams, "renumber"),
    (_host_lanes.HostLook, "frames"),
    (_host_lanes.HostLook, "remember"),
    (_pending.WaitingSteps, "new"),
    (_pending.WaitingSteps, "frames"),
    (_pending.DeviceGrid, "fill"),
    (delta.Changes, "encode"),
    (delta.Changes, "_renew"),
    (runs.RowCoder, "_append"),
    (_heap.TorchHeap, "append"),
    (_heap.TorchHeap, "stage"),
    (_heap.TorchHeap, "moved"),
    (_frames, "on_device"),
]


def name_of(fault: tuple[Any, str]) -> str:
    """Returns what a test is called that fails there."""
    where, name = fault
    return f"{where.__name__}.{name}".split(".torch.")[-1]
