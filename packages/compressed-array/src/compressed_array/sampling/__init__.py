"""What to sample from a buffer: index arithmetic that belongs to no framework, on numpy alone.

>>> import numpy as np
>>> from compressed_array.sampling import PriorityTree, Ring, Windows
>>> ring = Ring(capacity=1000, lanes=2)
>>> windows = Windows(ring, length=3)
>>> for has_ended in [(False, False), (False, True), (True, False), (False, False)]:
...     windows.append(has_ended)
...     ring.advance()
>>> windows.draw(np.arange(1)).numbers.tolist()  # in lane 1 an episode ends after two steps
[[0, 2, 4]]
"""

from compressed_array._runtime.output_pool import lend as batch_memory
from compressed_array.sampling._gather import Gather as Gather
from compressed_array.sampling._gather import Table as Table
from compressed_array.sampling._n_step import NStep as NStep
from compressed_array.sampling._n_step import n_step as n_step
from compressed_array.sampling._priorities import importance_weights as importance_weights
from compressed_array.sampling._priorities import priorities_of as priorities_of
from compressed_array.sampling._ring import Ring as Ring
from compressed_array.sampling._tree import PriorityTree as PriorityTree
from compressed_array.sampling._windows import WindowBatch as WindowBatch
from compressed_array.sampling._windows import Windows as Windows

__all__ = [
    "Gather",
    "NStep",
    "PriorityTree",
    "Ring",
    "Table",
    "WindowBatch",
    "Windows",
    "batch_memory",
    "importance_weights",
    "n_step",
    "priorities_of",
]
