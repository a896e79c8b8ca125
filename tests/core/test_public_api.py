"""The public names, and that importing them costs little."""

from __future__ import annotations

import subprocess
import sys

import compressed_array as ca

PUBLIC = [
    "BusyStoreError",
    "Codec",
    "CodecLevelError",
    "CodecUnavailableError",
    "CompressedArray",
    "CorruptFileError",
    "CorruptPayloadError",
    "HeapFullError",
    "LossyWriteError",
    "UnknownCodecError",
    "UnsupportedDtypeError",
    "UnsupportedOperationError",
    "available_codecs",
    "compress",
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
    "zeros",
]


def test_the_public_names_are_these() -> None:
    modules = {"abc", "codecs", "dtypes", "errors", "registry", "testing", "torch"}
    names = {name for name in vars(ca) if not name.startswith("_")} - modules
    assert sorted(names) == sorted(PUBLIC)


def test_each_has_a_docstring() -> None:
    assert [name for name in PUBLIC if not getattr(ca, name).__doc__] == []


def test_importing_imports_nothing_that_is_optional() -> None:
    optional = [
        "torch",
        "numba",
        "llvmlite",
        "gymnasium",
        "zstandard",
        "lz4",
        "isal",
        "numcodecs",
        "pytest",
        "hypothesis",
    ]
    code = f"import sys, compressed_array; print([name for name in {optional} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_importing_says_nothing_and_sets_nothing_up() -> None:
    code = (
        "import logging, warnings, threading, compressed_array; print(logging.root.handlers, threading.active_count())"
    )
    run = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[] 1"
    assert run.stderr == ""
