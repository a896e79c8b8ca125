"""Compatibility only: two names from the top of sb3-extra-buffers, and a list of all that is here for its users.

Programs that were written for sb3-extra-buffers run when they change the name of the package. These modules are here
for that reason alone; nothing imports them except the package's `__init__`, for the two names of this module:

- `DummyCls` and `sb3_version`, in this module
- `compressed`, with `base`, `utils`, `compressed_array`, `compressed_replay`, `compressed_rollout` and
  `compression_methods`, in which `compression_methods` makes the pairs of functions that are called so there, and
  `compression_methods_lz4`, `compression_methods_numba` and `compression_methods_zstd` have the names of theirs
- `gpu_buffers`, with `compression_methods` and `utils`

These do what they do in sb3-extra-buffers, in modules of the same names:

- `vec_buf`, with `buffers`: `DummyVecRolloutBuffer`
- `recording`, with `base` (`DummyArray`), `record_buffer`, `dummy_record_buffers` and `utils` (`force_alloc_mem`): the
  buffers of `compressed_array.recording` by the arguments `res`, `ch_num`, `size` and `dtypes`, and with `add_filled`,
  `max_size` and `_ptr`, which `_pictures` gives them. `RecordCallback` and `CompressedRecordBuffer` are ours.
- `training_utils`, with `atari`, `buffer_warmup` and `eval_model`, which `buffer_warmup` has as well. `report` is ours.

Arguments and methods that only its users need:

- of all buffers `compression_method`, `compression_kwargs`, `decompression_kwargs` and `dtypes`, which `_codecs` turns
  into a codec or ignores; a level that a codec does not have is replaced with a `CodecLevelWarning`
- of buffers on a device `max_slot_bytes`, which `compressed_array.torch.DeviceArray` takes
- `reconstruct_obs` and `reconstruct_nextobs` of the buffers
- `elem_type` and `runs_type` of `init_jit`, and the `runs_type` that `find_buffer_dtypes` returns

And in the core: `find_buffer_dtypes`, `find_smallest_dtype` and `init_jit` in
`compressed_array.dtypes`, `find_gpu_buffer_dtypes` and `estimate_total_heap_bytes` in `compressed_array.torch` (by
`_compat`), and `has_zstd` there.
"""

from __future__ import annotations

import re
from typing import Any

import stable_baselines3


class DummyCls:
    """Stands in for a class that a saved model names and that is not wanted any more: it does nothing.

    >>> DummyCls(1000, device="cpu") is not None
    True

    As in `DQN.load(path, custom_objects={"replay_buffer_class": DummyCls})`.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass


def sb3_version() -> tuple[int, int, int]:
    """Returns major, minor and patch of SB3's version as numbers, without a suffix such as `a0`."""
    found = [re.match(r"\d+", part) for part in stable_baselines3.__version__.split(".")]
    major, minor, patch, *_ = [*(int(part.group()) if part else 0 for part in found), 0, 0, 0]
    return major, minor, patch
