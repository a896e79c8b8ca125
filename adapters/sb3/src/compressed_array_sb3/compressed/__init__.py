"""The names of `sb3_extra_buffers.compressed`, so that its users change the name of the package and nothing else."""

from compressed_array_sb3 import CompressedArray as CompressedArray
from compressed_array_sb3 import CompressedDictReplayBuffer as CompressedDictReplayBuffer
from compressed_array_sb3 import CompressedDictRolloutBuffer as CompressedDictRolloutBuffer
from compressed_array_sb3 import CompressedReplayBuffer as CompressedReplayBuffer
from compressed_array_sb3 import CompressedRolloutBuffer as CompressedRolloutBuffer
from compressed_array_sb3 import DummyCls as DummyCls
from compressed_array_sb3 import find_buffer_dtypes as find_buffer_dtypes
from compressed_array_sb3 import find_smallest_dtype as find_smallest_dtype
from compressed_array_sb3 import has_igzip as has_igzip
from compressed_array_sb3 import has_numba as has_numba
from compressed_array_sb3 import init_jit as init_jit
