"""What replay buffers hold, and how long adding takes, for every codec and level that sb3-extra-buffers lists.

    pip install -e "packages/compressed-array[fast]" -e "adapters/sb3[atari,progress]"
    pip install sb3-extra-buffers zstd                  # to have its figures beside ours
    python -m examples.eval_memory_saving               # 10,000 transitions of MsPacman; half an hour, mostly zstd22
    python -m examples.eval_memory_saving --codecs zstd-3 rle-jit auto
    python -m examples.eval_memory_saving --smoke       # some seconds

MsPacman is played once, by 4 environments with 4 frames each, at random or by a model (`--model dqn.zip`). Every buffer
is filled with that in a process of its own. "says" is what it counts, "real" what the process has grown by; seconds are
of CPU time in `add`, since a busy machine would spoil any other. It fails if an observation comes back with another
value, or if `auto` takes more memory than any codec in the list.

SB3 and sb3-extra-buffers run with `optimize_memory_usage`, as in the latter's own table: the next observation is that
of the row after, which at the end of an episode is wrong. Ours holds the true one, and keeps it once where it is the
next step's observation.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import io
import math
import multiprocessing
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3 import DQN
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.vec_env import DummyVecEnv
from tqdm import tqdm

from compressed_array_sb3 import CompressedReplayBuffer
from compressed_array_sb3.training_utils.atari import make_env

GAME, ENVS = "MsPacmanNoFrameskip-v4", 4
SHAPE = (ENVS, 84, 84, 4)  # of a step's observations in memory
LEVELS = {
    "gzip": ("0", "1", "3"),
    "igzip": ("0", "1", "3"),
    "lz4-frame": ("/1", "/5", "/9", "/12"),
    "lz4-block": ("/1", "/5", "/9", "/16"),
    "zstd": ("-100", "-50", "-20", "-5", "-3", "-1", "1", "3", "5", "10", "15", "22"),
}
LISTED = ("none", "rle", "rle-jit", *(name + level for name, levels in LEVELS.items() for level in levels))
OURS_ALONE = ("delta", "delta-zstd", "auto")
BASELINE, OURS, THEIRS = "SB3", "compressed-array", "sb3-extra-buffers"
WARM_UP, CHECKS = 128, 200


class Cost(NamedTuple):
    """Bytes that a buffer says it holds, bytes that its process has grown by, and seconds."""

    says: float
    real: float
    seconds: float


Measure = Callable[[str, str, Path, int], Cost]
NOTHING = Cost(math.nan, math.nan, math.nan)


def record(folder: Path, steps: int, model: str | None) -> None:
    """Play the game and keep what SB3 would add to a buffer."""
    env = make_env(GAME, ENVS, vec_env_cls=DummyVecEnv, framestack=4, seed=0)
    player = DQN.load(model, device="cpu") if model else None
    rng, obs = np.random.default_rng(0), env.reset()
    ends = np.zeros((steps, ENVS), bool)
    with (folder / "obs").open("wb") as each, (folder / "lasts").open("wb") as lasts:
        for step in tqdm(range(steps), desc="playing", disable=None):
            each.write(obs.transpose(0, 2, 3, 1).tobytes())
            action = rng.integers(env.action_space.n, size=ENVS) if player is None else player.predict(obs)[0]
            obs, _, ends[step], infos = env.step(action)
            for i in np.flatnonzero(ends[step]):
                lasts.write(infos[i]["terminal_observation"].transpose(1, 2, 0).tobytes())
        each.write(obs.transpose(0, 2, 3, 1).tobytes())
    np.save(folder / "ends.npy", ends)
    env.close()


def play(folder: Path, steps: int) -> Iterator[tuple[Any, Any, Any]]:
    """What each step was before and after, and whether it ended an episode; views of channel last memory, as in SB3."""
    size = math.prod(SHAPE)
    with (folder / "obs").open("rb") as each, (folder / "lasts").open("rb") as lasts:
        obs = np.fromfile(each, np.uint8, size).reshape(SHAPE)
        for ended in np.load(folder / "ends.npy")[:steps]:
            new = np.fromfile(each, np.uint8, size).reshape(SHAPE)
            after = new.copy()
            for i in np.flatnonzero(ended):
                after[i] = np.fromfile(lasts, np.uint8, size // ENVS).reshape(SHAPE[1:])
            yield obs.transpose(0, 3, 1, 2), after.transpose(0, 3, 1, 2), ended
            obs = new


def make_replay(who: str, codec: str, space: spaces.Space[Any], actions: spaces.Discrete, steps: int) -> Any:
    """A buffer for `steps` of each environment; that of others in the mode that their own table is of."""
    arguments: dict[str, Any] = {
        "buffer_size": steps * ENVS,
        "observation_space": space,
        "action_space": actions,
        "device": "cpu",
        "n_envs": ENVS,
    }
    if who == OURS:
        return CompressedReplayBuffer(**arguments, compression_method=codec)
    arguments |= {"optimize_memory_usage": True, "handle_timeout_termination": False}
    return ReplayBuffer(**arguments) if who == BASELINE else make_other("CompressedReplayBuffer", codec, arguments)


def make_other(name: str, codec: str, arguments: dict[str, Any]) -> Any:
    """A buffer of sb3-extra-buffers, made as it says."""
    with redirect_stdout(io.StringIO()):  # to which it logs when it is imported
        import sb3_extra_buffers.compressed as other
    space = arguments["observation_space"]
    dtypes = other.find_buffer_dtypes(space.shape, space.dtype, codec)
    return getattr(other, name)(**arguments, dtypes=dtypes, compression_method=codec)


def said_by(who: str, arrays: Sequence[Any]) -> int:
    """What arrays of observations say that they hold, theirs counted as in their own benchmark."""
    if who == THEIRS:
        return sum(sys.getsizeof(array) + sum(map(sys.getsizeof, array.flat)) for array in arrays)
    return sum(array.nbytes for array in arrays)


def measure_saving(who: str, codec: str, folder: Path, steps: int) -> Cost:
    """What a replay buffer costs, told by a process that does nothing else."""
    torch.set_num_threads(1)
    space, actions = spaces.Box(0, 255, (SHAPE[-1], *SHAPE[1:3]), np.uint8), spaces.Discrete(9)

    def filled(count: int) -> tuple[Any, float]:
        buffer, spent = make_replay(who, codec, space, actions, count), 0.0
        for obs, after, ended in play(folder, count):
            start = time.process_time()
            buffer.add(obs, after, np.zeros(ENVS, int), np.zeros(ENVS), ended, [{}] * ENVS)
            spent += time.process_time() - start
        return buffer, spent

    # Libraries and compiled kernels come with the first use and do not grow with a buffer. The small one stays, or the
    # next would move into its memory.
    small, _ = filled(min(steps, WARM_UP))
    small.sample(64)
    before = own_memory()
    buffer, seconds = filled(steps)
    real = own_memory(trim=False) - before
    # The row after the last is the first, which in the others' mode is written by the last step, too.
    rng = np.random.default_rng(0)
    checked = {int(row): int(rng.integers(ENVS)) for row in rng.permutation(np.arange(1, steps))[:CHECKS]}
    for row, (obs, _, _) in enumerate(play(folder, steps)):
        if row in checked:
            env = checked[row]
            held = buffer.reconstruct_obs(row, env) if who == THEIRS else buffer.observations[row, env]
            assert np.array_equal(np.reshape(held, obs.shape[1:]), obs[env]), f"{who} {codec}: another value"
    says = buffer.memory_usage().stored if who == OURS else said_by(who, [buffer.observations])
    return Cost(says, real, seconds)


def own_memory(trim: bool = True) -> float:
    """Bytes that this process holds, NaN where the system does not tell; trimmed, without those that it has freed."""
    gc.collect()
    status = Path("/proc/self/status")
    if not status.exists():
        return math.nan
    if trim:
        ctypes.CDLL(None).malloc_trim(0)
    return next(float(line.split()[1]) * 1024 for line in status.open() if line.startswith("RssAnon:"))


def in_own_process(work: Measure, *arguments: Any) -> Cost:
    fresh = multiprocessing.get_context("forkserver")
    fresh.set_forkserver_preload(["compressed_array_sb3", "tqdm"])  # imported once for all, and used by none before
    with ProcessPoolExecutor(1, mp_context=fresh) as pool:
        return pool.submit(quiet, work, *arguments).result()


def quiet(work: Measure, *arguments: Any) -> Cost:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that level 16 of lz4-block is 12, and what the other library warns of
        return work(*arguments)


Row = tuple[str, Cost, Cost]


def compare(work: Measure, codecs: Sequence[str], folder: Path, steps: int) -> Iterator[Row]:
    """What each codec costs with us and with the other library, SB3's own buffer first."""
    has_other = find_spec("sb3_extra_buffers") is not None
    with tqdm(total=1 + len(codecs), desc="measuring", disable=None) as bar:
        yield BASELINE, in_own_process(work, BASELINE, "", folder, steps), NOTHING
        bar.update()
        for codec in codecs:
            bar.set_postfix_str(codec)
            ours = in_own_process(work, OURS, codec, folder, steps)
            other = codec not in OURS_ALONE and has_other
            yield codec, ours, in_own_process(work, THEIRS, codec, folder, steps) if other else NOTHING
            bar.update()


def show(rows: Iterator[Row], verb: str) -> list[Row]:
    """Print rows as they come, in 80 columns."""
    print(f"{'':13}{OURS:^33}{'|':2}{THEIRS:^32}")
    columns = f"{'says MB':>8}{'real MB':>9}{'%':>7}{verb + ' s':>8}"
    print(f"{'codec':13}{columns} |{columns}")
    seen: list[Row] = []
    for codec, ours, theirs in rows:
        seen.append((codec, ours, theirs))
        raw = seen[0][1].says
        sides = (
            "".join(
                " " * width if math.isnan(value) else f"{value:{width}.{digits}f}"
                for value, width, digits in (
                    (cost.says / 1e6, 8, 1),
                    (cost.real / 1e6, 9, 1),
                    (100 * cost.real / raw, 7, 1),
                    (cost.seconds, 8, 2),
                )
            )
            for cost in (ours, theirs)
        )
        tqdm.write(f"{codec:13}{' |'.join(sides)}".rstrip(" |"))
    return seen


def check(rows: list[Row]) -> None:
    """`auto` holds less than any codec that both have, and what our buffers say is true within some."""
    costs = {codec: ours for codec, ours, _ in rows}
    listed = [cost for codec, ours, theirs in rows if codec in LISTED for cost in (ours, theirs)]
    if "auto" in costs:
        least = min((cost.says for cost in listed if not math.isnan(cost.says)), default=math.inf)
        assert costs["auto"].says < least, "auto holds more than another codec"
    for codec, cost in costs.items():
        slack = max(0.1 * cost.says, 3e6)  # of small buffers: actions and rewards, and pages that are not full
        assert not abs(cost.real - cost.says) > slack, f"{codec} says {cost.says:,.0f} and takes {cost.real:,.0f} bytes"


def parse(doc: str) -> tuple[argparse.Namespace, int]:
    """The options, and the number of steps of each environment."""
    options = argparse.ArgumentParser(description=doc.splitlines()[0])
    options.add_argument("--transitions", type=int, default=10_000)
    options.add_argument("--codecs", nargs="+", default=[*LISTED, *OURS_ALONE], metavar="CODEC")
    options.add_argument("--model", help="a DQN on MsPacman that plays, saved by SB3; left out, actions are random")
    options.add_argument("--smoke", action="store_true", help="a tiny run of some codecs")
    given = options.parse_args()
    if given.smoke:
        given.transitions, given.codecs = 1_000, ["zstd-3", "auto"]
    return given, given.transitions // ENVS


def main(doc: str, work: Measure, verb: str) -> None:
    given, steps = parse(doc)
    with TemporaryDirectory() as folder:
        record(Path(folder), steps, given.model)
        print(f"{steps * ENVS:,} transitions of {GAME}; % of what SB3 holds")
        rows = show(compare(work, given.codecs, Path(folder), steps), verb)
    check(rows)
    if (best := {codec: ours for codec, ours, _ in rows}.get("auto")) is not None:
        held = 100 * best.real / rows[0][1].says
        print(f"every observation came back bit for bit; auto takes {held:.2f} % of SB3's memory")


if __name__ == "__main__":
    main(__doc__, measure_saving, "add")
