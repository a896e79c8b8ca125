"""The command line with games and with the buffers of SB3."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

pytest.importorskip("typer")

from typer.testing import CliRunner

import compressed_array as ca
import compressed_array_sb3
from compressed_array._cli.app import app
from compressed_array._cli.play import play
from compressed_array_sb3 import (
    CompressedDictReplayBuffer,
    CompressedPrioritizedReplayBuffer,
    CompressedReplayBuffer,
    GpuReplayBuffer,
)

pytestmark = pytest.mark.long


def invoke(*arguments: Any) -> Any:
    return CliRunner(env={"COLUMNS": "80"}).invoke(app, [str(word) for word in arguments])


def answer(*arguments: Any) -> Any:
    result = invoke(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_pong_as_people_run_it() -> None:
    arguments = ["recommend", "--env", "PongNoFrameskip-v4", "--envs", "2", "--steps", "150"]
    command = [sys.executable, "-m", "compressed_array", *arguments]
    run = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | {"COLUMNS": "80"})
    assert (run.returncode, run.stderr) == (0, "")
    assert max(map(len, run.stdout.splitlines())) <= 80
    assert "SB3's AtariWrapper, 4 frames stacked" in run.stdout
    assert "300 items of (4, 84, 84) uint8" in run.stdout
    assert 'DQN("CnnPolicy", env, replay_buffer_class=CompressedReplayBuffer,' in run.stdout


@pytest.mark.parametrize("env", ["PongNoFrameskip-v4", "ALE/Pong-v5", "CartPole-v1"])
def test_the_code_for_sb3_runs(env: str) -> None:
    """On its own, and the model sees what was measured."""
    said = answer("recommend", "--env", env, "--envs", 1, "--steps", 40, "--codec", "gzip", "--codec", "none")
    names: dict[str, Any] = {}
    exec(said["sb3"].replace(" env,", " env, buffer_size=100,"), names)
    assert names["model"].observation_space.shape == tuple(said["parts"][0]["shape"][2:])


@pytest.mark.parametrize("has_sb3", [True, False])
def test_pong_is_wrapped_as_usual_with_sb3_and_without(monkeypatch: pytest.MonkeyPatch, has_sb3: bool) -> None:
    if not has_sb3:
        monkeypatch.setitem(sys.modules, "stable_baselines3.common.atari_wrappers", None)
    game = play("PongNoFrameskip-v4", 2, 60, 0, quiet=True)
    assert ("SB3" in game.wrappers) == has_sb3
    (part,) = game.parts
    assert (part.array.shape, part.array.dtype, part.item_ndim) == ((60, 2, 4, 84, 84), np.uint8, 3)
    assert part.array[0].any()
    assert not part.array[0, :, :3].any()  # as SB3 stacks: nothing before the first frame
    # A stack moves on by a frame at each step.
    assert np.array_equal(part.array[1:20, :, :3], part.array[:19, :, 1:])


def test_vectors_are_played_as_they_are() -> None:
    said = answer("recommend", "--env", "CartPole-v1", "--envs", 3, "--steps", 50)
    (part,) = said["parts"]
    assert (part["shape"], part["dtype"], part["item_ndim"]) == ([50, 3, 4], "float32", 1)
    assert said["wrappers"] == "none"
    assert '"MlpPolicy"' in said["sb3"]
    names: dict[str, Any] = {"ca": ca, "np": np}
    exec(part["code"], names)
    assert names["obs"].shape == (50, 3, 4)


def test_a_module_may_stand_before_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_poles.py").write_text(
        "import gymnasium\n"
        "gymnasium.register('MyPole-v0', 'gymnasium.envs.classic_control.cartpole:CartPoleEnv', max_episode_steps=50)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    (part,) = answer("recommend", "--env", "my_poles:MyPole-v0", "--envs", 2, "--steps", 30)["parts"]
    assert part["shape"] == [30, 2, 4]
    refused = invoke("recommend", "--env", "no_poles:MyPole-v0")
    assert refused.exit_code == 2
    assert "no_poles" in refused.stderr


class Rooms(gymnasium.Env[Any, Any]):
    """Observations of two kinds."""

    observation_space = spaces.Dict(
        {"image": spaces.Box(0, 255, (3, 20, 20), np.uint8), "state": spaces.Box(-1, 1, (5,))}
    )
    action_space = spaces.Box(-1, 1, (2,))

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self._seen(), {}

    def step(self, action: Any) -> Any:
        return self._seen(), 0.0, bool(self.np_random.random() < 0.1), False, {}

    def _seen(self) -> Any:
        image = np.zeros((3, 20, 20), np.uint8)
        image[:, self.np_random.integers(20)] = 200
        return {"image": image, "state": self.np_random.random(5).astype(np.float32)}


@pytest.fixture
def rooms() -> Any:
    gymnasium.register("Rooms-v0", entry_point=Rooms, disable_env_checker=True)
    yield "Rooms-v0"
    gymnasium.registry.pop("Rooms-v0")


def test_games_without_an_action_that_does_nothing_are_measured() -> None:
    """SB3's wrappers do not take them, so there is no code for SB3."""
    said = answer("recommend", "--env", "ALE/Backgammon-v5", "--envs", 1, "--steps", 20, "--codec", "gzip")
    assert said["parts"][0]["shape"] == [20, 1, 4, 84, 84]
    assert "gymnasium's AtariPreprocessing" in said["wrappers"]
    assert said["sb3"] is None


def test_dicts_have_a_table_for_each_key(rooms: str) -> None:
    said = answer("recommend", "--env", rooms, "--envs", 2, "--steps", 100)
    assert [part["name"] for part in said["parts"]] == ["image", "state"]
    assert "CompressedDictReplayBuffer" in said["sb3"]
    assert f'    "image": "{said["parts"][0]["best"]}",' in said["sb3"]
    assert 'SAC("MultiInputPolicy"' in said["sb3"]
    compile(said["sb3"], "sb3", "exec")
    result = invoke("recommend", "--env", rooms, "--steps", 50)
    assert "image: 200 items of (3, 20, 20) uint8" in result.stdout
    assert "state: 200 items of (5,) float32" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80
    said = answer("bench", "--env", rooms, "--steps", 50, "--rounds", 2, "--codec", "delta")
    assert [part["items"] for part in said["parts"]] == [200, 200]


@pytest.mark.parametrize("env", ["Nope-v1", "PongNoFrameskip-v99", "ALE/Nope-v5", "no_such_module:Env-v0"])
def test_games_that_do_not_exist(env: str) -> None:
    result = invoke("recommend", "--env", env)
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
    assert env.partition(":")[0] in result.stderr


def test_atari_without_its_library_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    games = {name: spec for name, spec in gymnasium.registry.items() if "ale_py" in str(spec.entry_point)}
    monkeypatch.setitem(sys.modules, "ale_py", None)
    for name in games:
        monkeypatch.delitem(gymnasium.registry, name)
    result = invoke("recommend", "--env", "PongNoFrameskip-v4")
    assert result.exit_code == 2
    assert "pip install ale-py" in result.stderr


def filled(kind: type, space: spaces.Space[Any], **options: Any) -> Any:
    buffer = kind(100, space, spaces.Discrete(2), n_envs=2, **options)
    rng = np.random.default_rng(0)

    def obs(step: int) -> Any:
        image = np.zeros((2, 1, 40, 40), np.uint8)
        image[..., step % 40] = 7
        both = {"image": image, "state": rng.random((2, 3), np.float32)}
        return both if isinstance(space, spaces.Dict) else both["image" if len(space.shape or ()) == 3 else "state"]

    for step in range(30):
        buffer.add(obs(step), obs(step + 1), np.zeros(2), np.zeros(2), np.zeros(2), [{}, {}])
    return buffer


IMAGE = spaces.Box(0, 255, (1, 40, 40), np.uint8)
BOTH = spaces.Dict({"image": IMAGE, "state": spaces.Box(0, 1, (3,))})


@pytest.mark.parametrize(
    ("kind", "space"), [(CompressedReplayBuffer, IMAGE), (CompressedDictReplayBuffer, BOTH), (GpuReplayBuffer, IMAGE)]
)
def test_buffers_are_described_as_they_describe_themselves(
    tmp_path: Path, kind: type, space: spaces.Space[Any]
) -> None:
    file = tmp_path / "buffer.pkl"
    file.write_bytes(pickle.dumps(filled(kind, space)))
    usage = pickle.loads(file.read_bytes()).memory_usage()
    said = answer("inspect", file, "--trust", "--frames", tmp_path / "strip.png")
    assert said["kind"] == kind.__name__
    assert (said["buffer"]["transitions"], said["buffer"]["capacity"]) == (60, 100)
    for key, of in usage.keys.items():
        assert said["buffer"]["keys"][key]["ratio"] == of.ratio
        assert said["buffer"]["keys"][key]["codec"] == of.codec
        assert sum(said["bytes_by_part"][key].values()) > 0
    assert (tmp_path / "strip.png").read_bytes().startswith(b"\x89PNG")
    shown = invoke("inspect", file, "--trust").stdout
    assert max(map(len, shown.splitlines())) <= 80
    assert "60 of 100 transitions" in shown
    assert answer("verify", file, "--trust")["ok"]
    assert invoke("inspect", file).exit_code == 2


@pytest.mark.parametrize(
    ("kind", "space", "compressed"),
    [
        (CompressedReplayBuffer, IMAGE, 2),
        (CompressedDictReplayBuffer, BOTH, 2),
        (CompressedPrioritizedReplayBuffer, IMAGE, 2),
        (GpuReplayBuffer, IMAGE, 2),
        (CompressedReplayBuffer, BOTH["state"], 0),
    ],
)
def test_verify_says_what_of_a_buffer_it_can_check(
    tmp_path: Path, kind: type, space: spaces.Space[Any], compressed: int
) -> None:
    file, buffer = tmp_path / "buffer.pkl", filled(kind, space)
    file.write_bytes(pickle.dumps(buffer))
    held: dict[str, Any] = {name: getattr(buffer, name) for name in ("actions", "rewards", "dones", "timeouts")}
    if hasattr(buffer, "priorities"):
        held["priorities"] = buffer.priorities[np.arange(buffer.priorities.capacity)]
    for name in ("observations", "next_observations"):
        value = getattr(buffer, name)
        parts = {f"{name}[{key!r}]": part for key, part in value.items()} if isinstance(value, dict) else {name: value}
        held |= parts
    plain = {name: array for name, array in held.items() if isinstance(array, np.ndarray)}
    plain = {name: array for name, array in plain.items() if not isinstance(array, ca.CompressedArray)}
    said = answer("verify", file, "--trust")
    assert (said["arrays"], sorted(said["unchecked"])) == (len(held), sorted(plain))
    assert said["decoded_bytes"] == sum(array.nbytes for name, array in held.items() if name not in plain)
    assert said["checksums"] == ("items" if compressed else "none")
    shown = invoke("verify", file, "--trust").stdout
    assert "sound" not in shown
    assert f"  {len(plain)} plain arrays, " in shown
    assert (f"  {compressed} compressed arrays: every item decodes" in shown) == (compressed > 0)


def test_a_flipped_byte_of_a_pickled_buffer_is_found_or_said_to_be_unchecked(tmp_path: Path) -> None:
    file, buffer = tmp_path / "buffer.pkl", filled(CompressedReplayBuffer, IMAGE, codec="gzip")
    buffer.rewards[:] = np.random.default_rng(0).random(buffer.rewards.shape, np.float32)
    data = pickle.dumps(buffer)
    at = data.index(buffer.rewards.tobytes())
    file.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    assert not np.array_equal(pickle.loads(file.read_bytes()).rewards, buffer.rewards)
    assert "rewards" in answer("verify", file, "--trust")["unchecked"]
    at = data.index(buffer.observations.store.export(np.unique(buffer.observations.cells.numbers)[1:])[0].data[:50])
    file.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    assert "changed" in invoke("verify", file, "--trust").stderr


def test_observations_without_pictures_are_not_drawn(tmp_path: Path) -> None:
    """The steps and environments of a plain array are no part of its items."""
    file = tmp_path / "buffer.pkl"
    file.write_bytes(pickle.dumps(filled(CompressedReplayBuffer, BOTH["state"])))
    refused = invoke("inspect", file, "--trust", "--frames", tmp_path / "strip.png")
    assert refused.exit_code == 2
    assert "items of shape (3,) and dtype float32 are no pictures" in refused.stderr


def test_device_arrays_are_read(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from compressed_array.torch import DeviceArray

    array = DeviceArray((50, 30, 30), torch.uint8)
    array[:20] = torch.arange(30, dtype=torch.uint8).expand(20, 30, 30)
    array.save(tmp_path / "a.pt")
    about = answer("inspect", tmp_path / "a.pt")["arrays"][""]
    assert (about["shape"], about["dtype"], about["written"]) == ([50, 30, 30], "uint8", 20)
    assert answer("verify", tmp_path / "a.pt")["decoded_bytes"] == 50 * 900
    data = bytearray((tmp_path / "a.pt").read_bytes())
    data[len(data) // 2] ^= 255
    (tmp_path / "a.pt").write_bytes(data)
    result = invoke("verify", tmp_path / "a.pt")
    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1


def test_buffers_that_torch_has_saved_are_read(tmp_path: Path) -> None:
    torch, cat = pytest.importorskip("torch"), pytest.importorskip("compressed_array_torch")
    buffer = cat.ReplayBuffer(20, 2, (1, 30, 30), (), obs_dtype=torch.uint8, action_dtype=torch.int64)
    for step in range(10):
        obs, none = torch.full((2, 1, 30, 30), step, dtype=torch.uint8), torch.zeros(2)
        buffer.add(obs, none.long(), none, none, obs + 1, none)
    file = tmp_path / "buffer.pt"
    torch.save(buffer.state_dict(), file)
    said = answer("inspect", file, "--frames", tmp_path / "strip.png")
    assert said["kind"] == "ReplayBuffer"
    assert said["arrays"]["observations"]["item_shape"] == [1, 30, 30]
    assert said["arrays"]["rewards"]["codec"] is None
    assert (tmp_path / "strip.png").stat().st_size > 0
    assert "observations" in invoke("inspect", file).stdout
    verified = answer("verify", file)
    assert (verified["arrays"], verified["checksums"], verified["unchecked"]) == (len(said["arrays"]), "all", [])
    assert "buffer.pt: sound, a ReplayBuffer, " in invoke("verify", file).stdout
    for other, words in (
        ({"weights": torch.ones(3)}, "neither a device array nor a buffer"),
        (Path("of a class that torch does not trust"), "weights_only=True"),
    ):
        torch.save(other, file)
        result = invoke("inspect", file)
        assert result.exit_code == 1
        assert words in result.stderr
        assert len(result.stderr) < 300


def test_changed_rewards_in_what_torch_has_saved_are_found(tmp_path: Path) -> None:
    torch, cat = pytest.importorskip("torch"), pytest.importorskip("compressed_array_torch")
    buffer = cat.ReplayBuffer(20, 2, (1, 30, 30), (), obs_dtype=torch.uint8, action_dtype=torch.int64)
    for step in range(10):
        obs, none = torch.full((2, 1, 30, 30), step, dtype=torch.uint8), torch.zeros(2)
        buffer.add(obs, none.long(), none + 0.123 + step, none, obs + 1, none)
    file = tmp_path / "buffer.pt"
    torch.save(buffer.state_dict(), file)
    data, reward = file.read_bytes(), np.float32(9.123).tobytes()
    at = data.index(reward)
    file.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    torch.load(file, weights_only=True)  # which does not notice
    refused = invoke("verify", file)
    assert refused.exit_code == 1
    assert "the archive was changed or cut short (Bad CRC-32" in refused.stderr
    torch.serialization.set_crc32_options(compute_crc32=False)
    try:
        torch.save(buffer.state_dict(), file)
    finally:
        torch.serialization.set_crc32_options(compute_crc32=True)
    said = answer("verify", file)
    assert said["checksums"] == "items"
    assert "rewards" in said["unchecked"]
    assert "observations" not in said["unchecked"]


def test_what_sb3_code_names_is_there() -> None:
    for buffer in ("CompressedReplayBuffer", "CompressedDictReplayBuffer", "CompressedRolloutBuffer"):
        assert hasattr(compressed_array_sb3, buffer)
