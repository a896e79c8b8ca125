"""rl-baselines3-zoo trains and plays Atari by its own command line, with a compressed buffer in its hyperparameters.

    pip install rl_zoo3 requests -e "packages/compressed-array[fast]" -e "adapters/sb3[atari,contrib,progress]"
    python -m examples.train_zoo --algo dqn --env MsPacmanNoFrameskip-v4
    python -m examples.train_zoo --algo ppo --env PongNoFrameskip-v4 --steps 10000000
    python -m examples.train_zoo --smoke    # half a minute

All that differs from the zoo's own settings is in `zoo/dqn.yml` and `zoo/ppo.py`. This prints the commands that it
runs, which can as well be typed: `python -m rl_zoo3.train` and, with the model that it has saved, `rl_zoo3.enjoy`. It
fails unless the buffer, by the zoo's own log, holds less than a twentieth of the bytes of its observations.
"""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
from pathlib import Path

CONFIGS = {"dqn": Path(__file__).parent / "zoo" / "dqn.yml", "ppo": Path(__file__).parent / "zoo" / "ppo.py"}
SMALL = {
    "dqn": ["buffer_size:1000", "learning_starts:300"],
    "ppo": ["n_envs:2", "n_steps:100", "batch_size:100", "n_epochs:1"],
}


def run(*arguments: str) -> str:
    """Runs a module of the zoo, shows what it prints, and returns it."""
    print(shlex.join(["python", "-m", *arguments]), flush=True)
    lines = []
    command = [sys.executable, "-m", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line)
    assert process.returncode == 0, f"it ended with {process.returncode}"
    return "".join(lines)


def last_logged(printed: str) -> dict[str, float]:
    """What BufferStatsCallback logged last, which the zoo prints as a table with a section `buffer/`."""
    names = ("ratio", "raw_mb", "shared", "stored_mb", "transitions")
    found = {name: re.findall(rf"\|\s+{name}\s+\|\s+([-+.e\d]+)\s+\|", printed) for name in names}
    return {name: float(values[-1]) for name, values in found.items()}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--algo", choices=CONFIGS, default="dqn")
    options.add_argument("--env", default="MsPacmanNoFrameskip-v4")
    options.add_argument("--steps", type=int, default=1_000_000)
    options.add_argument("--logs", default="zoo-logs", help="a folder for what the zoo saves")
    options.add_argument("--smoke", action="store_true", help="a short run")
    given = options.parse_args()
    steps = 400 if given.smoke else given.steps

    which = ["--algo", given.algo, "--env", given.env, "-f", given.logs]
    more = ["--hyperparams", *SMALL[given.algo], "--eval-freq", "-1"] if given.smoke else ["--progress"]
    printed = run("rl_zoo3.train", *which, "-n", str(steps), "--conf-file", str(CONFIGS[given.algo]), *more)
    run("rl_zoo3.enjoy", *which, "-n", "100" if given.smoke else "5000", "--no-render")
    logged = last_logged(printed)
    assert logged["ratio"] > 20, logged
    print(
        f"\n{logged['transitions']:,.0f} transitions in the buffer: {logged['raw_mb']:,.1f} MB of observations in "
        f"{logged['stored_mb']:,.2f} MB ({logged['ratio']:.1f}x smaller)"
    )


if __name__ == "__main__":
    main()
