"""The public names, and that importing them costs little."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import compressed_array as ca
from core_helpers.docstrings import public_modules

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
    "TransitionReader",
    "UnknownCodecError",
    "UnsupportedDtypeError",
    "UnsupportedOperationError",
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


def test_the_public_names_are_these() -> None:
    modules = {"abc", "codecs", "dtypes", "errors", "recording", "registry", "sampling"}
    modules |= {"testing", "torch", "usage"}
    names = {name for name in vars(ca) if not name.startswith("_")} - modules
    assert sorted(names) == sorted(PUBLIC)


@pytest.mark.parametrize("name", public_modules(ca))
def test_every_public_module_says_its_names(name: str) -> None:
    if name in ("compressed_array.torch", "compressed_array.recording.gymnasium"):
        pytest.importorskip(name.rpartition(".")[2])
    brought: dict[str, object] = {}
    exec(f"from {name} import *", brought)
    del brought["__builtins__"]
    assert sorted(brought) == sorted(importlib.import_module(name).__all__)
    assert "Raw" in brought or not name.endswith("codecs.none")


def test_all_has_the_public_names_and_the_version() -> None:
    assert sorted(ca.__all__) == sorted([*PUBLIC, "__version__"])


def test_tensors_without_torch_say_what_to_install() -> None:
    code = "import sys; sys.modules['torch'] = None; import compressed_array.torch"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (
        "ModuleNotFoundError: compressed_array.torch needs torch: pip install 'compressed-array[torch]'" in run.stderr
    )


def test_each_has_a_docstring() -> None:
    assert [name for name in PUBLIC if not getattr(ca, name).__doc__] == []


def test_importing_imports_nothing_that_is_optional() -> None:
    optional = [
        "torch",
        "numba",
        "llvmlite",
        "gymnasium",
        "imageio",
        "zstandard",
        "lz4",
        "isal",
        "numcodecs",
        "pytest",
        "hypothesis",
        "typer",
        "rich",
    ]
    code = f"import sys, compressed_array.recording; print([name for name in {optional} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_importing_says_nothing_and_sets_nothing_up() -> None:
    code = (
        "import logging, warnings, threading, compressed_array; print(logging.root.handlers, threading.active_count())"
    )
    run = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[] 1"
    assert run.stderr == ""
