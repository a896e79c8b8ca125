"""The defects of sb3-extra-buffers' buffers, none of which is here. Numbers are those of the study that found them."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

import compressed_array as ca
import compressed_array_sb3 as cab
from sb3_helpers.experience import DICT, SPACES, play, seeded

ACTIONS = spaces.Discrete(4)
METHODS = ["rle", "rle-old", "rle-jit", "gzip1", "igzip0", "zstd-5", "lz4-frame/1", "lz4-block/1", "none"]
VECTOR = spaces.Box(-1, 1, (3,), np.float32)


def filled(space: Any, obs: list[Any], n_envs: int = 1, **options: Any) -> cab.CompressedReplayBuffer:
    """A buffer whose steps are these observations, each followed by itself."""
    buffer = cab.CompressedReplayBuffer(len(obs) * n_envs, space, ACTIONS, n_envs=n_envs, **options)
    zeros = np.zeros(n_envs)
    for item in obs:
        buffer.add(item, item, zeros, zeros, zeros, [{}] * n_envs)
    return buffer


def sampled(buffer: Any, batch: int = 64) -> torch.Tensor:
    observations: torch.Tensor = seeded(0, buffer.sample, batch).observations
    return observations


@pytest.mark.parametrize("method", METHODS)
def test_1_floats_and_large_numbers_survive_the_defaults(method: str) -> None:
    floats = np.array([[0.25, -0.5, 1.0]], np.float32)
    assert sampled(filled(VECTOR, [floats], compression_method=method)).unique(dim=0).tolist() == floats.tolist()
    discrete = filled(spaces.Discrete(1000), [np.array([700])], compression_method=method)
    assert sampled(discrete).unique().tolist() == [700]


@pytest.mark.parametrize("method", METHODS)
def test_2_each_key_has_its_own_dtype(method: str) -> None:
    buffer = cab.CompressedDictReplayBuffer(50, DICT, ACTIONS, compression_method=method)
    steps = list(play(DICT, ACTIONS, 1, 50))
    for step in steps:
        buffer.add(*step)
    for key in DICT.spaces:
        kept, given = buffer.observations[key][np.arange(50)], np.stack([step.obs[key] for step in steps])
        np.testing.assert_array_equal(kept.reshape(50, -1), given.reshape(50, -1))


@pytest.mark.parametrize("bad", [300, -5, 256, 0.5])
def test_3_what_does_not_fit_is_refused_and_nothing_is_stored(bad: float) -> None:
    space = spaces.Box(0, 255, (300,), np.uint8)
    good = np.full((1, 300), 7, np.uint8)
    buffer = filled(space, [good, good])
    wrong = np.full((1, 300), bad)
    for pair in ((wrong, good), (good * 2, wrong)):
        with pytest.raises(ca.LossyWriteError, match="does not fit"):
            buffer.add(*pair, np.zeros(1), np.zeros(1), np.zeros(1), [{}])
    assert sampled(buffer).unique().tolist() == [7]
    assert buffer.pos == 0


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtypes", [None, np.uint8, {"elem_type": np.uint8, "runs_type": np.uint8}])
def test_4_long_runs_do_not_overflow(method: str, dtypes: Any) -> None:
    space = spaces.Box(0, 255, (1, 300, 300), np.uint8)
    buffer = filled(space, [np.full((1, 1, 300, 300), 9, np.uint8)], compression_method=method, dtypes=dtypes)
    assert (sampled(buffer, 2) == 9).all()


@pytest.mark.parametrize("codec", ["auto", "delta", "delta-zstd", "rle", "zstd-3"])
def test_5_nothing_is_overwritten_where_memory_is_reclaimed(codec: str) -> None:
    space = spaces.Box(0, 255, (1, 40, 40), np.uint8)
    buffer = cab.CompressedReplayBuffer(32, space, ACTIONS, n_envs=2, codec=codec)
    rng, kept = np.random.default_rng(0), np.zeros((16, 2, 1, 40, 40), np.uint8)
    for step in range(200):
        obs = rng.integers(0, 2 ** rng.integers(1, 8), (2, 1, 40, 40)).astype(np.uint8)  # of very different sizes
        kept[step % 16] = obs
        buffer.add(obs, obs[::-1], np.zeros(2), np.zeros(2), np.zeros(2), [{}] * 2)
        np.testing.assert_array_equal(buffer.observations, kept)
        np.testing.assert_array_equal(buffer.next_observations, kept[:, ::-1])


@pytest.mark.parametrize("method", METHODS)
def test_6_zeros_keep_their_signs(method: str) -> None:
    space = spaces.Box(-1, 1, (40,), np.float32)
    obs = np.tile(np.array([0.0, -0.0], np.float32), 20)[None]
    assert sampled(filled(space, [obs], compression_method=method), 1).numpy().tobytes() == obs.tobytes()


def test_7_what_was_overwritten_is_not_remembered() -> None:
    space = SPACES["stacked"]
    buffer = cab.CompressedReplayBuffer(8, space, ACTIONS)
    for step in play(space, ACTIONS, 1, 30):
        where = buffer.pos
        buffer.add(*step)
        np.testing.assert_array_equal(buffer.observations[where], step.obs)
        np.testing.assert_array_equal(buffer.observations[where, 0], step.obs[0])


def test_9_a_missing_library_is_an_error_and_not_another_codec(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("isal", "isal.isal_zlib", "isal.igzip_lib"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ca.CodecUnavailableError, match="igzip"):
        cab.CompressedReplayBuffer(10, SPACES["stacked"], ACTIONS, compression_method="igzip0")


@pytest.mark.parametrize("shape", [(1, 4, 36, 36), (4, 36, 36), (3, 4, 36, 36), (2, 4, 36, 35), (2, 1, 36, 36), (2,)])
def test_10_a_wrong_shape_is_refused_and_nothing_is_stored(shape: tuple[int, ...]) -> None:
    good = np.full((2, 4, 36, 36), 7, np.uint8)
    buffer = filled(SPACES["stacked"], [good, good], n_envs=2)
    wrong = np.ones(shape, np.uint8)
    for pair in ((wrong, good), (good * 2, wrong)):
        with pytest.raises(cab.ObservationError, match=r"2 environment\(s\) have \(2, 4, 36, 36\)"):
            buffer.add(*pair, np.zeros(2), np.zeros(2), np.zeros(2), [{}] * 2)
    assert sampled(buffer).unique().tolist() == [7]
    rollout = cab.CompressedRolloutBuffer(4, SPACES["stacked"], ACTIONS, n_envs=2)
    with pytest.raises(cab.ObservationError):
        rollout.add(wrong, np.zeros(2), np.zeros(2), np.zeros(2), torch.zeros(2), torch.zeros(2))
    assert rollout.pos == 0


def test_10_a_key_that_is_missing_is_named() -> None:
    buffer = cab.CompressedDictReplayBuffer(10, DICT, ACTIONS)
    step = next(play(DICT, ACTIONS, 1, 1))
    obs = {key: value for key, value in step.obs.items() if key != "state"}
    with pytest.raises(cab.ObservationError, match="'state'"):
        buffer.add(obs, *step[1:])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("output", ["raw", "float"])
def test_11_images_are_normalized_with_every_output(method: str, output: str) -> None:
    space = SPACES["stacked"]
    obs = np.arange(4 * 36 * 36).reshape(1, 4, 36, 36).astype(np.uint8)
    options = {"compression_method": method, "normalize_images": True, "output_dtype": output}
    wanted = torch.from_numpy(obs).float() / 255
    assert torch.equal(sampled(filled(space, [obs], **options), 1), wanted)
    rollout = cab.CompressedRolloutBuffer(1, space, ACTIONS, **options)
    rollout.add(obs, np.zeros(1), np.zeros(1), np.zeros(1), torch.zeros(1), torch.zeros(1))
    assert torch.equal(next(rollout.get()).observations, wanted)


def test_11_a_vector_among_images_is_not_divided() -> None:
    buffer = cab.CompressedDictReplayBuffer(10, DICT, ACTIONS, normalize_images=True, output_dtype="float")
    for step in play(DICT, ACTIONS, 1, 10):
        buffer.add(*step)
    plain = cab.CompressedDictReplayBuffer(10, DICT, ACTIONS)
    for step in play(DICT, ACTIONS, 1, 10):
        plain.add(*step)
    ours, raw = seeded(0, buffer.sample, 20), seeded(0, plain.sample, 20)
    for fields in ("observations", "next_observations"):
        assert torch.equal(getattr(ours, fields)["image"], getattr(raw, fields)["image"].float() / 255)
        assert torch.equal(getattr(ours, fields)["state"], getattr(raw, fields)["state"])
        assert getattr(ours, fields)["colour"].dtype == torch.float32


def test_12_the_caller_s_dicts_stay_as_they_are() -> None:
    dtypes, kwargs = {"elem_type": np.uint8, "runs_type": np.uint16}, {"compresslevel": 5}
    obs = np.zeros((1, 4, 36, 36), np.uint8)
    options = {"dtypes": dtypes, "compression_kwargs": kwargs, "decompression_kwargs": {}}
    first = filled(SPACES["stacked"], [obs], compression_method="zstd", **options)
    second = filled(SPACES["stacked"], [obs], compression_method="rle", dtypes=dtypes)
    assert (dtypes, kwargs) == ({"elem_type": np.uint8, "runs_type": np.uint16}, {"compresslevel": 5})
    assert ca.shorthand(first.observations.codec) == "zstd5"
    assert ca.shorthand(second.observations.codec) == "rle"
    step, codecs = next(play(DICT, ACTIONS, 1, 1)), {"image": "delta"}
    before = {key: value.shape for key, value in step.obs.items()}
    cab.CompressedDictReplayBuffer(10, DICT, ACTIONS, codec=codecs).add(*step)
    assert {key: value.shape for key, value in step.obs.items()} == before
    assert codecs == {"image": "delta"}


def test_26_a_buffer_that_is_dropped_is_gone() -> None:
    buffer = filled(SPACES["stacked"], [np.ones((1, 4, 36, 36), np.uint8)] * 10)
    sampled(buffer)
    gone = [weakref.ref(buffer), weakref.ref(buffer.observations), weakref.ref(buffer.observations.store)]
    del buffer
    gc.collect()
    assert [ref() for ref in gone] == [None, None, None]


def test_29_nothing_is_printed() -> None:
    code = (
        "import numpy as np, compressed_array_sb3 as cab; from gymnasium import spaces;"
        "image = spaces.Box(0, 255, (4, 84, 84), np.uint8);"
        "cab.CompressedDictReplayBuffer(10, spaces.Dict({'a': image}), spaces.Discrete(2));"
        "cab.CompressedReplayBuffer(10, image, spaces.Discrete(2))"
    )
    run = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert (run.stdout, run.stderr) == ("", "")


@pytest.mark.parametrize("kind", ["box", "dict"])
@pytest.mark.parametrize("n_envs", [1, 8])
def test_30_a_buffer_that_fits_when_compressed_warns_of_nothing(kind: str, n_envs: int) -> None:
    image = spaces.Box(0, 255, (4, 84, 84), np.uint8)
    if kind == "box":  # 5.6 TB as plain arrays; any warning is an error here
        cab.CompressedReplayBuffer(100_000_000 // n_envs, image, ACTIONS, n_envs=n_envs)
    else:
        space = spaces.Dict({"image": image})
        cab.CompressedDictReplayBuffer(100_000_000 // n_envs, space, ACTIONS, n_envs=n_envs)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("space", SPACES)
def test_31_the_dtype_is_the_space_s_whatever_the_codec(method: str, space: str) -> None:
    obs = next(play(SPACES[space], ACTIONS, 1, 1)).obs
    got = sampled(filled(SPACES[space], [obs], compression_method=method), 1).numpy()
    assert got.dtype == SPACES[space].dtype


def test_32_errors_are_no_assertions() -> None:
    code = (
        "import numpy as np, compressed_array_sb3 as cab; from gymnasium import spaces;"
        "image = spaces.Box(0, 255, (4, 84, 84), np.uint8);"
        "buffer = cab.CompressedRolloutBuffer(10, image, spaces.Discrete(2));"
        "buffer.get()"
    )
    run = subprocess.run([sys.executable, "-O", "-c", code], capture_output=True, text=True, check=False)
    assert "BufferNotFullError: 0 of 10 steps are collected" in run.stderr
