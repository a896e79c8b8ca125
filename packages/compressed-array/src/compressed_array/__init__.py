"""Compressed numpy arrays: lossless, indexed like any other, a fraction of the memory.

>>> import numpy as np, compressed_array as ca
>>> frames = ca.zeros((1000, 84, 84), np.uint8)
>>> frames[0] = np.arange(84, dtype=np.uint8)
>>> int(frames[0, 10].sum())
3486
"""

from compressed_array._array.array import CompressedArray as CompressedArray
from compressed_array._array.creation import compress as compress
from compressed_array._array.creation import full as full
from compressed_array._array.creation import zeros as zeros
from compressed_array._array.file import load as load
from compressed_array._array.file import save as save
from compressed_array._array.joining import concatenate as concatenate
from compressed_array._array.pair import read_pair as read_pair
from compressed_array._array.pair import write_pair as write_pair
from compressed_array._array.recommend import recommend as recommend
from compressed_array._array.transitions import TransitionReader as TransitionReader
from compressed_array._version import __version__ as __version__
from compressed_array.abc import Codec as Codec
from compressed_array.dtypes import find_buffer_dtypes as find_buffer_dtypes
from compressed_array.dtypes import find_smallest_dtype as find_smallest_dtype
from compressed_array.dtypes import init_jit as init_jit
from compressed_array.errors import BusyStoreError as BusyStoreError
from compressed_array.errors import CodecLevelError as CodecLevelError
from compressed_array.errors import CodecUnavailableError as CodecUnavailableError
from compressed_array.errors import CorruptFileError as CorruptFileError
from compressed_array.errors import CorruptPayloadError as CorruptPayloadError
from compressed_array.errors import HeapFullError as HeapFullError
from compressed_array.errors import LossyWriteError as LossyWriteError
from compressed_array.errors import UnknownCodecError as UnknownCodecError
from compressed_array.errors import UnsupportedDtypeError as UnsupportedDtypeError
from compressed_array.errors import UnsupportedOperationError as UnsupportedOperationError
from compressed_array.registry import available_codecs as available_codecs
from compressed_array.registry import get_codec as get_codec
from compressed_array.registry import has_igzip as has_igzip
from compressed_array.registry import has_lz4 as has_lz4
from compressed_array.registry import has_numba as has_numba
from compressed_array.registry import has_zstd as has_zstd
from compressed_array.registry import register_codec as register_codec
from compressed_array.registry import shorthand as shorthand

__all__ = [
    "BusyStoreError",
    "Codec",
    "CodecLevelError",
    "CodecUnavailableError",
    "CompressedArray",
    "CorruptFileError",
    "CorruptPayloadError",
    "HeapFullError",
    "LossyWriteError",
    "TransitionReader",
    "UnknownCodecError",
    "UnsupportedDtypeError",
    "UnsupportedOperationError",
    "__version__",
    "available_codecs",
    "compress",
    "concatenate",
    "find_buffer_dtypes",
    "find_smallest_dtype",
    "full",
    "get_codec",
    "has_igzip",
    "has_lz4",
    "has_numba",
    "has_zstd",
    "init_jit",
    "load",
    "read_pair",
    "recommend",
    "register_codec",
    "save",
    "shorthand",
    "write_pair",
    "zeros",
]
