"""Everything that is run on this repository: `nox` for the checks, `nox -l` for the rest.

Each environment installs only what its session needs, so that an import which is not declared fails.
"""

from __future__ import annotations

import ast
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nox

nox.needs_version = ">=2025.2.9"
# pip alone honours every pip setting, such as directories of locally built wheels; uv reads its own.
nox.options.default_venv_backend = "virtualenv"
nox.options.reuse_venv = "yes"
nox.options.sessions = ["environments", "lint", "types", "tests"]

ROOT = Path(__file__).parent
CORE, SB3, SBX, TORCH = "packages/compressed-array", "adapters/sb3", "adapters/sbx", "adapters/torch"
ATARI = ("gymnasium", "ale-py", "opencv-python-headless")
# What `bench` compares buffers with, the games that it plays, and what draws the result.
PEERS = ("stable-baselines3", "sb3-extra-buffers", "zstd", "torchrl", "tensordict", "cpprb", "numcodecs")
GAMES = ("gymnasium[box2d,mujoco]", "vizdoom", "matplotlib")

# Libraries that take anything with a buffer, or keep codecs of others: what they make of ours.
NEIGHBOURS = ("h5py", "numcodecs", "opencv-python-headless", "pandas", "pyarrow", "scikit-learn", "xarray", "zarr")

# What `tests(<name>)` runs: folders of tests, and all that its environment holds.
TESTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "core-min": (("tests/core", "tests/examples"), ("-e", f"{CORE}[testing]")),
    "core": (
        ("tests/core", "tests/docs", "tests/examples"),
        ("-e", f"{CORE}[cli,fast,testing,video]", "numcodecs", "gymnasium", "ml_dtypes"),
    ),
    "device": (("tests/device", "tests/neighbours"), ("-e", f"{CORE}[fast,testing,torch]", *NEIGHBOURS)),
    # With the examples of plain torch that play games, which nothing else of that adapter needs.
    "sb3": (
        ("tests/sb3", "tests/torch/test_torch_examples.py::test_an_example_that_plays_runs"),
        ("-e", f"{CORE}[cli,fast,testing,video]", "-e", f"{SB3}[atari,contrib,progress]", "-e", TORCH, "vizdoom"),
    ),
    "sbx": (("tests/sbx",), ("-e", f"{CORE}[fast,testing]", "-e", f"{SB3}[atari,progress]", "-e", SBX)),
    "torch": (("tests/torch",), ("-e", f"{CORE}[fast,testing]", "-e", f"{TORCH}[torchrl]", "tqdm")),
}

# Files that other programs read, by the schema that `build` checks them against.
SCHEMAS = {
    "citation-file-format": "CITATION.cff",
    "github-workflows": ".github/workflows/*.yml",
    "github-issue-config": ".github/ISSUE_TEMPLATE/config.yml",
    "github-issue-forms": ".github/ISSUE_TEMPLATE/[!c]*.yml",
}

# What `build` runs with each package once it is installed: the smallest thing that proves it works.
ROUND_TRIPS: dict[str, str] = {
    CORE: """
import numpy as np, compressed_array as ca
frames = np.arange(6 * 84 * 84).reshape(6, 84, 84) // 500
array = ca.compress(frames, item_ndim=2, codec="gzip")
assert (array[[5, 0]] == frames[[5, 0]]).all() and array.nbytes_stored < frames.nbytes
print(ca.__version__, array)
""",
    SB3: """
import numpy as np, compressed_array_sb3 as cab
from gymnasium import spaces
buffer = cab.CompressedReplayBuffer(100, spaces.Box(0, 255, (4, 84, 84), np.uint8), spaces.Discrete(2), n_envs=2)
obs = np.full((2, 4, 84, 84), 7, np.uint8)
buffer.add(obs, obs, np.zeros(2), np.zeros(2), np.zeros(2), [{}, {}])
assert (buffer.sample(4).observations == 7).all()
print(cab.__version__, buffer)
""",
    SBX: """
import numpy as np, compressed_array_sbx as cax
from gymnasium import spaces
buffer = cax.CompressedReplayBuffer(100, spaces.Box(0, 255, (4, 84, 84), np.uint8), spaces.Discrete(2), n_envs=2)
obs = np.full((2, 4, 84, 84), 7, np.uint8)
buffer.add(obs, obs, np.zeros(2), np.zeros(2), np.zeros(2), [{}, {}])
assert (buffer.sample_jax(4).observations == 7).all()
print(cax.__version__, buffer)
""",
    TORCH: """
import torch, compressed_array_torch as cat
buffer = cat.ReplayBuffer(100, 2, (4, 84, 84), (), obs_dtype=torch.uint8, action_dtype=torch.int64)
obs, none = torch.full((2, 4, 84, 84), 7, dtype=torch.uint8), torch.zeros(2)
buffer.add(obs, none.long(), none, none, obs, none)
assert (buffer.get(4).observations == 7).all()
print(cat.__version__, buffer)
""",
}


# Runs tests on several cores. It is installed together with what they need, since pip takes seconds to begin.
PYTEST = "pytest-xdist"


def install(session: nox.Session, *what: str) -> None:
    """Installs what a session needs, unless its environment was made with just that."""
    files = [ROOT / "constraints.txt", *sorted(ROOT.glob("*/*/pyproject.toml"))]
    wanted = hashlib.sha256("\0".join([str(ROOT), *what, *map(Path.read_text, files)]).encode()).hexdigest()
    made_with, report = session.env_dir / "made-with", session.env_dir / "installed.json"
    if made_with.exists() and made_with.read_text() == wanted:
        return
    for file in (made_with, report):
        file.unlink(missing_ok=True)
    # Without compiling what may never be imported: of torch alone that takes longer than all its tests' imports.
    session.install("--no-compile", "--report", str(report), "-c", "constraints.txt", *what)
    if report.exists():  # `nox -R` installs nothing
        made_with.write_text(wanted)


def run_tests(session: nox.Session, *arguments: str, profile: str = "default", may_be_none: bool = False) -> None:
    """pytest on all cores. Libraries get one thread in each process: more would wait for each other."""
    workers = ("-n", str(os.cpu_count() or 1), "--dist", "worksteal")
    # Whoever adds a slow test sees it: all sessions together should take no more than twelve minutes.
    slowest = ("--durations", "8", "--durations-min", "2")
    # Tests start hundreds of processes, each of which would compile what it imports if nobody may keep it.
    env = {"OMP_NUM_THREADS": "1", "HYPOTHESIS_PROFILE": profile, "PYTHONDONTWRITEBYTECODE": ""}
    ends = [0, 5] if may_be_none else [0]  # pytest ends with 5 where it finds no test
    session.run("pytest", *workers, *slowest, *arguments, *session.posargs, env=env, success_codes=ends)


@nox.session(venv_backend="none")
def environments(session: nox.Session) -> None:
    """The environments of the checks below that are not there yet, several at a time: pip works on one core."""
    folder = session.env_dir.parent

    def make(name: str) -> None:
        if (folder / re.sub(r"\W+", "-", name).strip("-")).exists():  # what it lacks, its own session installs
            return
        command = [sys.executable, "-m", "nox", "--envdir", str(folder), "--install-only", "-s", name]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            session.error(f"{name}\n{done.stdout}{done.stderr}")
        session.log(f"{name} is installed")

    names = ["types", *(f"tests({name})" for name in TESTS)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(make, names))


@nox.session
def lint(session: nox.Session) -> None:
    """Style and format."""
    install(session, "ruff")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session
def types(session: nox.Session) -> None:
    """Strict types in all that is shipped."""
    adapters = ("-e", f"{SB3}[atari,contrib,progress]", "-e", SBX, "-e", TORCH)
    install(session, "mypy", "nox", "-e", f"{CORE}[cli,fast,testing]", *adapters)
    sources = [*ROOT.glob("packages/*/src"), *ROOT.glob("adapters/*/src")]
    session.run("mypy", "noxfile.py", *sorted(str(src.relative_to(ROOT)) for src in sources))


@nox.session
@nox.parametrize("env", [nox.param(name, id=name) for name in TESTS])
def tests(session: nox.Session, env: str) -> None:
    """The tests of one package, with nothing installed that it does not ask for."""
    folders, needs = TESTS[env]
    install(session, PYTEST, *needs)
    if env == "core-min":  # a second time what `core` runs, slower and with less installed
        run_tests(session, *folders, "-m", "not slow and not same_everywhere", profile="fewer")
    else:
        run_tests(session, *folders, "-m", "not slow")


@nox.session(default=False)
def quick(session: nox.Session) -> None:
    """Style, and the tests that take no time, in two minutes: for while one works on something."""
    adapters = ("-e", f"{SB3}[atari,contrib,progress]", "-e", SBX, "-e", TORCH)
    install(session, PYTEST, "ruff", "-e", f"{CORE}[cli,fast,testing,video]", *adapters)
    session.run("ruff", "check", ".")
    run_tests(session, "tests", "-m", "not slow and not long", profile="quick")


@nox.session(default=False)
@nox.parametrize("env", [nox.param(name, id=name) for name in TESTS if name != "core-min"])
def slow(session: nox.Session, env: str) -> None:
    """The tests that take minutes, and those of properties with a thousand examples each."""
    folders, needs = TESTS[env]
    install(session, PYTEST, *needs)
    patient = ("-o", "faulthandler_timeout=1800")
    run_tests(session, *folders, "-m", "slow", *patient)
    run_tests(session, *folders, "-m", "hypothesis and not slow", *patient, profile="thorough", may_be_none=True)


@nox.session(default=False)
def coverage(session: nox.Session) -> None:
    """Which lines of the core its tests never reach."""
    folders, needs = TESTS["core"]
    install(session, "coverage", *needs)
    session.run("coverage", "run", "-m", "pytest", *folders, *session.posargs)
    session.run("coverage", "report")


@nox.session(default=False)
def docs(session: nox.Session) -> None:
    """The pages, with every warning an error, in docs/_build/html; with `-- linkcheck` links to other sites as well.

    The code on the pages is run by `tests`. Nothing is fetched but by `linkcheck`, which needs a network.
    """
    adapters = ("-e", f"{SB3}[atari,contrib,progress]", "-e", SBX, "-e", f"{TORCH}[torchrl]")
    tools = ("sphinx", "furo", "myst-parser", "sphinx-copybutton")
    install(session, *tools, "-e", f"{CORE}[cli,fast,testing,torch,video]", *adapters)
    site = "docs/_build/html"
    sphinx = ("python", "-m", "sphinx", "-W", "--keep-going", "-E", "-q", "-d", "docs/_build/doctrees")
    session.run(*sphinx, "-b", "html", "docs", site)
    session.run("python", "docs/_tools/check_site.py", site)
    if "linkcheck" in session.posargs:
        session.run(*sphinx, "-b", "linkcheck", "docs", "docs/_build/linkcheck")
    else:
        session.log(
            "links to other sites were not followed: `nox -s docs -- linkcheck` does that, where there is a network"
        )


@nox.session(default=False)
def demo(session: nox.Session) -> None:
    """MsPacman in a stock buffer and in a compressed one: memory, speed, and the weights that DQN learns from each."""
    install(session, "-e", f"{CORE}[fast]", "-e", f"{SB3}[atari,progress]", "matplotlib")
    session.run("python", "-m", "examples.demo")


def needs_of(example: Path) -> list[str]:
    """What the docstring of an example says to install, each thing as one word."""
    lines = re.findall(r"^ +pip install (.+)$", ast.get_docstring(ast.parse(example.read_text())) or "", re.MULTILINE)
    return [word for line in lines for word in shlex.split(line.replace("-e ", "--editable="), comments=True)]


@nox.session(default=False)
def examples(session: nox.Session) -> None:
    """The examples named after `--`, or all of them, as short runs; what their docstrings ask for is installed."""
    every = {file.stem: file for file in sorted(ROOT.glob("examples/[!_]*.py"))}
    names = session.posargs or list(every)
    install(session, *dict.fromkeys(word for name in names for word in needs_of(every[name])))
    # What they write, models and videos, is left there.
    with tempfile.TemporaryDirectory() as folder, session.chdir(folder):
        for name in names:
            session.run("python", str(every[name]), "--smoke", env={"OMP_NUM_THREADS": "1"})


@nox.session(default=False)
def bench(session: nox.Session) -> None:
    """The benchmarks named after `--`, or all of them."""
    every = sorted(file.stem for file in ROOT.glob("benchmarks/*.py") if not file.stem.startswith("_"))
    names = session.posargs or every
    more = ("-e", SB3, "-e", SBX, "-e", TORCH, *PEERS, *GAMES) if set(names) - {"array"} else ()
    install(session, "-e", f"{CORE}[fast]", *ATARI, *more)
    if "torch" in names:
        # Alone: it asks for older releases than are pinned here (pandas, virtualenv), and of all of it only one module
        # is used, its tree of priorities, which needs numba and numpy.
        install(session, "--no-deps", "tianshou")
    for name in names:
        session.run("python", "-m", f"benchmarks.{name}")


@nox.session(default=False)
def build(session: nox.Session) -> None:
    """An sdist and a wheel of every package, checked, and each installed where there is nothing else, and used.

    With `-- release` it refuses what is not ready for others: see RELEASING.md.
    """
    install(session, "build", "check-jsonschema", "twine")
    for schema, pattern in SCHEMAS.items():
        files = sorted(str(file.relative_to(ROOT)) for file in ROOT.glob(pattern))
        session.run("check-jsonschema", "--builtin-schema", f"vendor.{schema}", *files)
    missing = missing_for_release()
    if missing and "release" in session.posargs:
        session.error("; ".join(missing))
    dist = ROOT / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    links: list[str] = []
    for package, round_trip in ROUND_TRIPS.items():
        made = dist / Path(package).name
        # The environment that it builds in is its own, so that a constraint reaches it this way only.
        constraint = {"PIP_CONSTRAINT": str(ROOT / "constraints.txt")}
        session.run("python", "-m", "build", "--outdir", str(made), package, env=constraint)
        archives = sorted(made.glob("*"))
        session.run("twine", "check", "--strict", *map(str, archives))
        links += ["--find-links", str(made)]
        for archive in archives:
            session.log(f"using {archive.name} in a clean environment")
            with tempfile.TemporaryDirectory() as clean, session.chdir(clean):
                session.run("python", "-m", "venv", "venv")
                python = str(Path(clean, "venv", "bin", "python"))
                pip = (python, "-m", "pip", "install", "-q", "-c", str(ROOT / "constraints.txt"), *links)
                session.run(*pip, str(archive), external=True)
                session.run(python, "-c", round_trip, external=True)
    for what in missing:
        session.log(f"not ready for a release: {what}")


def missing_for_release() -> list[str]:
    """What a release needs that is not in the repository yet."""
    said = {file: file.read_text().partition('__version__ = "')[2][:-2] for file in ROOT.glob("*/*/src/*/_version.py")}
    version = min(said.values())
    missing = [f"{file.relative_to(ROOT)} does not say {version}" for file, other in said.items() if other != version]
    if f"version: {version}\n" not in (ROOT / "CITATION.cff").read_text():
        missing.append(f"CITATION.cff does not say {version}")
    if "unreleased" in (ROOT / "CHANGELOG.md").read_text().partition(f"## {version}")[2].partition("\n")[0]:
        missing.append(f"CHANGELOG.md has no date for {version}")
    projects = {package: tomllib.loads((ROOT / package / "pyproject.toml").read_text()) for package in ROUND_TRIPS}
    homeless = [package for package, project in projects.items() if "urls" not in project["project"]]
    return [*missing, f"no [project.urls] in {', '.join(homeless)}"] if homeless else missing
