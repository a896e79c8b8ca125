"""`compressed-array codecs`: which codecs are here, and what brings those that are not."""

from __future__ import annotations

import inspect
from typing import Any

import compressed_array as ca
from compressed_array._cli.output import AsJson, say, say_json, say_table
from compressed_array.errors import CodecLevelError
from compressed_array.registry import class_of

FAR = 10**9  # a level beyond all levels: who refuses it says which comes closest
BY_DATA = "by data"


def codecs(as_json: AsJson = False) -> None:
    """Shows which codecs are here, and what brings the others."""
    known: list[dict[str, Any]] = [
        {"name": name, "available": info.available, "extra": info.extra, "source": info.source, **levels(name)}
        for name, info in ca.available_codecs().items()
    ]
    if as_json:
        say_json({"version": ca.__version__, "codecs": known})
        return
    rows = [(c["name"], *_level_words(c), "yes" if c["available"] else "no", c["extra"] or "") for c in known]
    say_table(("codec", "levels", "default", "here", "extra"), rows, left=5)
    missing = sorted({c["extra"] for c in known if not c["available"] and c["extra"]})
    if missing:
        say(f"\nFor those that are missing: pip install 'compressed-array[{','.join(missing)}]'")
    if not ca.has_numba():
        say("numba makes streams of frames (delta) many times faster as well.")


def levels(name: str) -> dict[str, int | None]:
    """Returns the lowest and highest level of a codec and its default; None where it has none, or follows the data."""
    cls = class_of(name)
    lowest, highest = _nearest(cls, -FAR), _nearest(cls, FAR)
    default = None
    if lowest is not None:
        default = inspect.signature(cls).parameters["level"].default
    return {"lowest_level": lowest, "highest_level": highest, "default_level": default}


def _nearest(cls: Any, level: int) -> int | None:
    try:
        cls(level=level)
    except CodecLevelError as error:
        return error.nearest
    except Exception:  # of a codec without levels, or of one that says otherwise which it has
        return None
    return None


def _level_words(codec: dict[str, Any]) -> tuple[str, str]:
    if codec["lowest_level"] is None:
        return "", ""
    default = codec["default_level"]
    return f"{codec['lowest_level']} to {codec['highest_level']}", BY_DATA if default is None else str(default)
