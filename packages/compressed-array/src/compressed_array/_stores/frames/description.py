"""What a file says of the groups of a `FrameStore`."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from compressed_array._stores.frames.checks import check
from compressed_array._stores.frames.export import FrameExport
from compressed_array._stores.frames.layouts import Layout
from compressed_array._stores.protocol import RecordNumbers
from compressed_array.codecs import _description
from compressed_array.codecs.delta import Delta
from compressed_array.errors import CorruptFileError, CorruptPayloadError

SECTIONS = {
    "tag": "u1",
    "size": "<u4",
    "before": "<u4",
    "count": "u1",
    "layout_of": "u1",
    "references": "u1",
    "data": "u1",
}


def describe(records: FrameExport) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Returns what a file's header says of groups, and the file's sections."""
    is_auto = isinstance(records.choice, str)
    fields = {
        "choice": records.choice if is_auto else _description.describe(records.choice),
        "layouts": [list(layout) for layout in records.layouts],
        "layout": records.layout,
        "found": records.found,
        "reference_nbytes": [reference.nbytes for reference in records.references],
    }
    sections = {name: getattr(records, name) for name in SECTIONS if name != "references"}
    return fields, sections | {"references": np.concatenate([np.empty(0, np.uint8), *records.references])}


def from_file(
    header: dict[str, Any], sections: dict[str, Any], codecs: list[Any], itemsize: int, cells: RecordNumbers
) -> FrameExport:
    """Returns the groups that a file has for these cells; raises if its parts contradict each other."""
    choice = header["choice"] if header["choice"] == "auto" else _description.described(header["choice"])
    layouts = [Layout(*map(_whole, layout)) for layout in header["layouts"]]
    lengths, sections = header["reference_nbytes"], dict(sections)
    joined = sections.pop("references")
    are_counts = all(type(n) is int and n >= 0 for n in lengths)
    if not are_counts or sum(lengths) != len(joined) or not isinstance(choice, str | Delta):
        raise CorruptFileError("the parts of the file contradict each other")
    references = np.split(joined, np.cumsum(lengths)[:-1]) if lengths else []
    records = FrameExport(
        choice=choice,
        layouts=layouts,
        layout=_whole(header["layout"]),
        found=header["found"] is True,
        codecs=codecs,
        references=references,
        **sections,
    )
    try:
        check(records, tuple(header["item_shape"]), itemsize, cells)
    except CorruptPayloadError as error:
        raise CorruptFileError(str(error)) from error
    return records


def _whole(number: Any) -> int:
    if type(number) is not int:
        raise TypeError(f"{number!r} is no whole number")
    return number
