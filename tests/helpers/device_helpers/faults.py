"""Where a write to an array on a device may be interrupted: by a lack of memory, or by a user who presses Ctrl-C."""

from __future__ import annotations

from typing import Any

from compressed_array.torch import _cells, _frame_table, _frames, _heap, _host_lanes, _lanes, _pending
from compressed_array.torch._coders import delta, runs

FAULTS: list[tuple[Any, str]] = [
    (_frame_table.FrameTable, "allocate"),
    (_frame_table.FrameTable, "put"),
    (_frame_table.FrameTable, "put_again"),
    (_lanes.DeviceLanes, "locate_new_frames"),
    (_lanes.DeviceLanes, "link_frames"),
    (_lanes.DeviceLanes, "relink_staged"),
    (_host_lanes.HostComparison, "frames"),
    (_host_lanes.HostComparison, "remember"),
    (_pending.PendingSteps, "count_new"),
    (_pending.PendingSteps, "frames"),
    (_cells.DeviceCells, "fill"),
    (delta.DeltaCoder, "encode"),
    (delta.DeltaCoder, "_update_lanes"),
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
