"""Machine code for the store of frames: each module is loaded by `loading.native`, and needs numba."""
