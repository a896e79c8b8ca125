"""What a buffer for DreamerV3 takes: images, and latents thrice as large that are written back after training.

    pip install -e "packages/compressed-array[fast]" -e adapters/torch tqdm
    pip install gymnasium ale-py opencv-python-headless    # if the images are to be of a game
    python -m examples.torch_dreamer_storage
    python -m examples.torch_dreamer_storage --smoke    # seconds, with a smaller recurrent state

A minute on a CPU, and nothing is learnt: a world model with random weights plays DreamerV3's part. Its latents are
computed in bfloat16 and kept as float32, half of whose bits are then zero, and as one-hot floats, nearly all of which
are. It fails unless the first take at most 45 % of plain arrays and the second 3 %, as they are added, and every batch
is what plain arrays have, also when latents were written back.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from compressed_array_torch import Field, SequenceReplayBuffer

ENVS, BATCH, LENGTH, CONTEXT = 4, 16, 64, 1
IMAGE, STOCH = (64, 64, 3), (32, 64)
BLOCKS = 32
Latents = tuple[torch.Tensor, torch.Tensor]
Step = tuple[np.ndarray, int, float, bool, bool, np.ndarray]  # obs, action, reward, terminated, truncated, next_obs


def atari(seed: int) -> Iterator[Step]:
    """MsPacman in colour, played at random."""
    import ale_py
    import gymnasium as gym
    from gymnasium.wrappers import AtariPreprocessing

    gym.register_envs(ale_py)
    env = AtariPreprocessing(gym.make("ALE/MsPacman-v5", frameskip=1), screen_size=IMAGE[0], grayscale_obs=False)
    rng = np.random.default_rng(seed)
    obs, _ = env.reset(seed=seed)
    while True:
        action = int(rng.integers(env.action_space.n))
        next_obs, reward, terminated, truncated, _ = env.step(action)
        yield obs, action, float(reward), terminated, truncated, next_obs
        obs = env.reset()[0] if terminated or truncated else next_obs


def scene(seed: int) -> Iterator[Step]:
    """Coloured squares that bounce off the walls, for where there is no game."""
    rng = np.random.default_rng(seed)
    backdrop = rng.integers(90, size=(8, 8, 3), dtype=np.uint8).repeat(8, 0).repeat(8, 1)
    colours = rng.integers(120, 256, size=(5, 3), dtype=np.uint8)
    while True:
        place, speed = rng.integers(54, size=(5, 2)), rng.integers(-3, 4, size=(5, 2))
        obs = backdrop
        for time in range(300):
            next_obs = backdrop.copy()
            speed = np.where((place + speed < 0) | (place + speed > 54), -speed, speed)
            place = place + speed
            for (y, x), colour in zip(place, colours, strict=True):
                next_obs[y : y + 10, x : x + 10] = colour
            yield obs, 0, 0.0, False, time == 299, next_obs
            obs = next_obs


class WorldModel:
    """Random weights in the shape of DreamerV3's: a recurrent state in blocks, and 32 choices of one out of 64."""

    def __init__(self, deter: int, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)
        size = deter // BLOCKS
        inputs = np.prod(STOCH) + 8 * 8 * 3
        self.from_deter = self._weights(BLOCKS, size, 2 * size)
        self.from_inputs = self._weights(int(inputs), 2 * deter) * 4.0
        self.to_stoch = self._weights(deter, int(np.prod(STOCH))) * 8.0

    def _weights(self, *shape: int) -> torch.Tensor:
        return (torch.randn(shape, generator=self.generator) / shape[-2] ** 0.5).bfloat16()

    def change(self) -> None:
        """What a step of training does, as far as latents are concerned: others come out from now on."""
        for weights in (self.from_deter, self.from_inputs, self.to_stoch):
            weights += 0.02 * weights.std() * torch.randn(weights.shape, generator=self.generator).bfloat16()

    def step(self, images: torch.Tensor, latents: Latents, is_first: torch.Tensor) -> Latents:
        """The latents of images, from those of the step before; an episode begins with none."""
        deter, stoch = (part * ~is_first.view(-1, *[1] * (part.ndim - 1)) for part in latents)
        seen = images.unfold(1, 8, 8).unfold(2, 8, 8).float().mean((-1, -2)).flatten(1) / 255.0 - 0.5
        inputs = torch.cat([stoch.flatten(1), seen], 1).bfloat16()
        blocks = deter.bfloat16().view(len(deter), BLOCKS, -1).transpose(0, 1)
        gates = torch.bmm(blocks, self.from_deter).transpose(0, 1).reshape(len(deter), -1) + inputs @ self.from_inputs
        update, candidate = gates.chunk(2, 1)
        update = torch.sigmoid(update - 1.0)
        deter = update * torch.tanh(candidate) + (1.0 - update) * deter.bfloat16()
        choices = (deter @ self.to_stoch).float().view(-1, *STOCH).softmax(-1).flatten(0, 1)
        chosen = torch.multinomial(choices, 1, generator=self.generator).view(-1, STOCH[0])
        return deter.float(), torch.nn.functional.one_hot(chosen, STOCH[1]).float()


def check(batch: Any, dense: dict[str, torch.Tensor]) -> None:
    """Compare a batch with plain tensors, bit by bit."""
    for name in ("images", "is_first"):
        ours = batch.observations if name == "images" else batch.is_first
        assert torch.equal(ours, dense[name][batch.number]), name
    for name in ("deter", "stoch"):
        assert torch.equal(batch.extras[name], dense[name][batch.number[:, 0]]), name


def report(buffer: SequenceReplayBuffer, dense: dict[str, torch.Tensor], when: str) -> dict[str, float]:
    """Print bytes a step by field, and say what parts of plain arrays those are."""
    usage = buffer.memory_usage()
    sizes = {name: dense[name][0].nbytes for name in ("images", "deter", "stoch")}
    held = {name: usage.keys["observations" if name == "images" else name].stored / usage.transitions for name in sizes}
    sizes["all"], held["all"] = sum(sizes.values()), sum(held.values())
    print(f"\nbytes a step {when:>26}{'dense':>12}{'held':>12}")
    for name, size in sizes.items():
        print(f"  {name:37}{size:12,}{held[name]:12,.0f}{held[name] / size:9.1%}")
    return {name: held[name] / size for name, size in sizes.items()}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--steps", type=int, default=2_400, help="of all environments together")
    options.add_argument("--batches", type=int, default=10, help="how often latents are written back")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--smoke", action="store_true", help="the same in seconds, with a smaller recurrent state")
    given = options.parse_args()
    rounds, batches, deter = (240, 2, 1_024) if given.smoke else (given.steps // ENVS, given.batches, 8_192)
    has_game = all(find_spec(name) for name in ("ale_py", "cv2", "gymnasium"))
    print(f"{rounds * ENVS:,} steps of {'MsPacman' if has_game else 'squares that bounce'}")

    model = WorldModel(deter, given.seed)
    buffer = SequenceReplayBuffer(
        rounds,
        ENVS,
        IMAGE,
        (),
        obs_dtype=torch.uint8,
        action_dtype=torch.int64,
        length=LENGTH,
        burn_in=CONTEXT,
        boundary="cross",  # windows go on with the next episode, and `is_first` says where
        first_only=("deter", "stoch"),  # where to begin: what comes after is computed anew
        fields={"deter": Field((deter,)), "stoch": Field(STOCH), "number": Field((), torch.int64)},
        generator=torch.Generator().manual_seed(given.seed),
    )
    kept: dict[str, list[torch.Tensor]] = {"images": [], "deter": [], "stoch": [], "is_first": []}
    games = [(atari if has_game else scene)(given.seed + i) for i in range(ENVS)]
    latents = torch.zeros(ENVS, deter), torch.zeros(ENVS, *STOCH)
    is_first = torch.ones(ENVS, dtype=torch.bool)
    for number in tqdm(range(rounds), "playing", disable=None):
        obs, action, reward, terminated, truncated, next_obs = map(np.array, zip(*map(next, games), strict=True))
        images = torch.from_numpy(obs)
        latents = model.step(images, latents, is_first)
        buffer.add(
            images,
            action,
            reward,
            terminated=terminated,
            truncated=truncated,
            next_obs=next_obs,
            deter=latents[0],
            stoch=latents[1],
            number=number * ENVS + torch.arange(ENVS),
        )
        for name, part in zip(kept, (images, *latents, is_first), strict=True):
            kept[name].append(part)
        is_first = torch.from_numpy(terminated | truncated)
    dense = {name: torch.cat(parts) for name, parts in kept.items()}
    shares = report(buffer, dense, "as they were added")
    assert shares["deter"] <= 0.45
    assert shares["stoch"] <= 0.03

    written = 0
    for _ in tqdm(range(batches), "writing back", disable=None):
        batch = buffer.get(BATCH)
        check(batch, dense)
        model.change()
        latents, computed = (batch.deter, batch.stoch), []
        for t in range(CONTEXT, CONTEXT + LENGTH):
            latents = model.step(batch.observations[:, t], latents, batch.is_first[:, t])
            computed.append(latents)
        new_deter, new_stoch = (torch.stack(parts, 1) for parts in zip(*computed, strict=True))
        written += buffer.update(batch.indices[:, CONTEXT:], deter=new_deter, stoch=new_stoch)
        # Where windows overlap, the last one counts, with numpy as with the buffer.
        where = batch.number[:, CONTEXT:].numpy()
        dense["deter"].numpy()[where] = new_deter.numpy()
        dense["stoch"].numpy()[where] = new_stoch.numpy()
    for _ in range(10):
        check(buffer.get(BATCH), dense)
    shares = report(buffer, dense, f"{written:,} written back")
    # Steps that are written over in no order leave gaps, which are closed when there are many: up to twice as much.
    assert shares["deter"] <= 0.9
    assert shares["stoch"] <= 0.1
    print(f"\nEvery batch was equal to plain arrays, bit by bit.\n{buffer!r}")


if __name__ == "__main__":
    main()
