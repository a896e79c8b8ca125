"""Choosing how a buffer keeps its observations, and what it says to choices that make no sense."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

import compressed_array as ca
import compressed_array_sb3 as cab
from sb3_helpers.experience import DICT, SPACES, play

ACTIONS = spaces.Discrete(4)


def test_contrib_is_imported_when_it_is_asked_for() -> None:
    code = (
        "import sys; sys.modules['sb3_contrib'] = None; import compressed_array_sb3 as cab\n"
        "try: cab.CompressedMaskableRolloutBuffer\n"
        "except ImportError as error: print(error)\n"
        "from compressed_array_sb3 import *\n"
        "print('CompressedReplayBuffer' in dir(), 'CompressedRecurrentPPO' in dir())"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'compressed-array-sb3[contrib]'" in run.stdout
    assert run.stdout.split()[-2:] == ["True", "False"]


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="Nothing"):
        cab.Nothing  # noqa: B018 - asking is the test


def test_each_key_may_have_a_codec() -> None:
    buffer = cab.CompressedDictReplayBuffer(50, DICT, ACTIONS, codec={"image": "delta", "state": "none"})
    assert ca.shorthand(buffer.observations["image"].codec) == "delta"
    assert type(buffer.observations["state"]) is np.ndarray


def test_small_observations_are_plain_arrays_unless_asked_for_otherwise() -> None:
    assert type(cab.CompressedReplayBuffer(50, SPACES["discrete"], ACTIONS).observations) is np.ndarray
    asked = cab.CompressedReplayBuffer(50, SPACES["discrete"], ACTIONS, codec="delta").observations
    assert isinstance(asked, ca.CompressedArray)
    for numbers, kind in ((64, np.ndarray), (65, ca.CompressedArray)):
        space = spaces.Box(-1, 1, (numbers,), np.float32)
        assert isinstance(cab.CompressedReplayBuffer(50, space, ACTIONS).observations, kind)


@pytest.mark.parametrize("codec", [ca.get_codec("zstd-3"), "zstd-3", "zstd/-3"])
def test_a_codec_may_be_a_name_or_an_object(codec: Any) -> None:
    buffer = cab.CompressedReplayBuffer(50, SPACES["stacked"], ACTIONS, codec=codec)
    assert ca.shorthand(buffer.observations.codec) == "zstd-3"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"codec": "zstd-3", "compression_method": "zstd-3"}, "two names for one thing"),
        ({"compression_kwargs": {"compresslevel": 3}}, "for a compression_method"),
        ({"compression_method": "zstd", "compression_kwargs": {"speed": 3}}, "unknown compression_kwargs"),
        ({"output_dtype": "double"}, "'raw' or 'float'"),
        ({"codec": "zst"}, "unknown codec"),
        ({"codec": "zstd99"}, "level"),
        ({"codec": "gzip-5"}, "level"),
        ({"codec": ""}, "codec"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], says: str) -> None:
    for cls in (cab.CompressedReplayBuffer, cab.CompressedRolloutBuffer):
        with pytest.raises(ValueError, match=says):
            cls(50, SPACES["stacked"], ACTIONS, **options)


def test_a_codec_for_a_key_that_there_is_not() -> None:
    with pytest.raises(cab.BufferOptionError, match=r"codecs for \['pixels'\].* the observations have the keys"):
        cab.CompressedDictReplayBuffer(50, DICT, ACTIONS, codec={"pixels": "delta"})


def test_an_option_that_does_not_exist() -> None:
    with pytest.raises(TypeError, match="compresion"):
        cab.CompressedReplayBuffer(50, SPACES["stacked"], ACTIONS, compresion="zstd-3")


@pytest.mark.parametrize(
    ("cls", "space"),
    [
        (cab.CompressedReplayBuffer, DICT),
        (cab.CompressedRolloutBuffer, DICT),
        (cab.CompressedDictReplayBuffer, SPACES["stacked"]),
        (cab.CompressedDictRolloutBuffer, SPACES["stacked"]),
    ],
)
def test_a_space_for_another_class(cls: Any, space: Any) -> None:
    with pytest.raises(cab.BufferOptionError, match="Dict in its name"):
        cls(50, space, ACTIONS)


def test_output_as_floats() -> None:
    buffer = cab.CompressedReplayBuffer(50, SPACES["stacked"], ACTIONS, output_dtype="float")
    step = next(play(SPACES["stacked"], ACTIONS, 1, 1))
    buffer.add(*step)
    np.testing.assert_array_equal(buffer.sample(1).observations.numpy(), step.obs.astype(np.float32))


def test_dummy_takes_anything() -> None:
    assert isinstance(cab.DummyCls(1, 2, three=3), cab.DummyCls)
