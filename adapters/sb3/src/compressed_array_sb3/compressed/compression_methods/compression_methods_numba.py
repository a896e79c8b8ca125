"""Where sb3-extra-buffers has `init_jit`."""

from compressed_array_sb3 import init_jit as init_jit
