"""A progress bar for a person at a terminal, drawn by tqdm, as SB3's own is, if that is installed."""

from __future__ import annotations

import importlib
import sys
import warnings
from typing import Any


class Progress:
    """Counts to `total`. Draws nothing unless it is `wanted`, stderr is a terminal and tqdm is installed."""

    def __init__(self, total: int, description: str, wanted: bool) -> None:
        self._bar = _bar(total, description) if wanted and sys.stderr.isatty() else None

    def update(self, count: int) -> None:
        if self._bar is not None and count:
            self._bar.update(count)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()


def _bar(total: int, description: str) -> Any:
    try:
        tqdm = importlib.import_module("tqdm")
    except ImportError:
        return None
    try:
        rich_tqdm = importlib.import_module("tqdm.rich").tqdm
        console = importlib.import_module("rich.console").Console(stderr=True)
    except ImportError:
        return tqdm.tqdm(total=total, desc=description)
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", tqdm.TqdmExperimentalWarning
        )  # that it may change is tqdm's concern, not a user's
        return rich_tqdm(total=total, desc=description, options={"console": console})
