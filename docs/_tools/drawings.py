"""The drawings of how it works: a stack, a group, segments, the layers."""

from __future__ import annotations

from collections.abc import Callable

from svg import Drawing

WIDTH = 560


def stack() -> Drawing:
    """Two transitions of stacked frames, and the frames that are stored."""
    drawing = Drawing(WIDTH, 258, "Of stacked observations that follow each other only one frame a step is new")
    size, gap, left = 36, 5, 112
    column = size + gap

    def row(y: float, name: str, first: int, new: int | None) -> None:
        drawing.text(left - 14, y + 23, name, anchor="end", mono=True, size=12.5)
        for place in range(4):
            number = first + place
            is_new = number == new
            x = left + number * column
            drawing.box(x, y, size, size, "ours" if is_new else "quiet", fill=0.28 if is_new else 0.08)
            drawing.text(x + size / 2, y + 23, f"f{number}", anchor="middle", size=13, bold=is_new)

    row(10, "obs[0]", 0, None)
    row(54, "next_obs[0]", 1, 4)
    row(98, "obs[1]", 1, None)
    row(142, "next_obs[1]", 2, 5)
    drawing.lines(left + 6 * column + 14, 69, ["f4 is new"], "ours", size=12.5)
    drawing.lines(left + 6 * column + 14, 106, ["all known:", "costs nothing"], "soft", size=12.5)
    drawing.lines(left + 6 * column + 14, 157, ["f5 is new"], "ours", size=12.5)
    drawing.line((left, 193), (left + 6 * column - gap, 193), colour="line")
    drawing.text(left - 14, 227, "stored", anchor="end", bold=True)
    for number in range(6):
        drawing.box(left + number * column, 204, size, size, "ours", fill=0.28 if number > 3 else 0.1)
        drawing.text(left + number * column + size / 2, 227, f"f{number}", anchor="middle", size=13)
    drawing.lines(left + 6 * column + 14, 219, ["each frame once,", "as what changed"], "ink", size=12.5)
    return drawing


def group() -> Drawing:
    """A group: its first frame by a reference or as it is, the others as changes."""
    drawing = Drawing(WIDTH, 218, "A group of frames: the first from a reference, the others as what changed")
    drawing.text(0, 18, "a group: up to 64 frames of one environment", bold=True, size=14)
    y, height = 62, 56
    drawing.text(8, y - 8, "slot", "soft", size=12)
    widths = (140, 64, 58, 72, 60)
    x = 8.0
    names = ("frame 0", "1", "2", "3", "4")
    for number, (width, name) in enumerate(zip(widths, names, strict=True)):
        drawing.box(x, y, width, height, "ours", fill=0.3 if number == 0 else 0.12)
        drawing.text(x + width / 2, y + 24, name, anchor="middle", bold=number == 0)
        drawing.text(
            x + width / 2, y + 43, "from reference" if number == 0 else "changes", "soft", size=11.5, anchor="middle"
        )
        if number:
            drawing.arrow((x + width / 2, y - 6), (x + width / 2, y - 20), (x - 16, y - 20), (x - 16, y - 3))
        x += width
    drawing.text(x + 12, y + 32, "…", size=18)
    drawing.line((x + 36, y), (x + 36, y + height), colour="line")
    drawing.lines(x + 46, y + 20, ["one piece", "of memory"], "soft", size=12)
    y = 160
    drawing.box(8, y, 118, 34, "other", fill=0.14)
    drawing.text(67, y + 22, "reference frame", anchor="middle", size=12.5)
    drawing.arrow((67, y), (67, 122), colour="other")
    drawing.text(146, y + 14, "one change:", bold=True, size=12.5)
    for start, width, name, colour, fill in (
        (146, 112, "skip 412 bytes", "quiet", 0.1),
        (258, 92, "7 bytes follow", "quiet", 0.1),
        (350, 108, "the 7 new bytes", "ours", 0.28),
    ):
        drawing.box(start, y + 22, width, 28, colour, fill=fill)
        drawing.text(start + width / 2, y + 40, name, anchor="middle", size=12)
    return drawing


def segment() -> Drawing:
    """Segments of the heap while a ring goes round."""
    drawing = Drawing(WIDTH, 206, "Segments of the heap: a ring empties them in the order in which it filled them")
    drawing.text(0, 18, "the heap: segments of 256 KiB to 4 MiB", bold=True, size=14)
    rows = (
        ("oldest", "all groups dead: given back", [("quiet", 0.0)] * 7, True),
        ("", "the ring is writing over these", [("quiet", 0.0)] * 3 + [("ours", 0.22)] * 4, False),
        ("", "alive", [("ours", 0.22)] * 7, False),
        ("newest", "groups are appended here", [("ours", 0.22)] * 4, False),
    )
    left, width = 70, 34
    for number, (age, words, groups, gone) in enumerate(rows):
        y = 34 + number * 44
        drawing.text(left - 10, y + 21, age, "soft", anchor="end", size=12)
        drawing.box(left, y, width * 7 + 12, 32, "quiet" if gone else "ink", fill=0)
        for place, (colour, fill) in enumerate(groups):
            drawing.box(left + 6 + place * width, y + 5, width - 3, 22, colour, fill=fill)
            if not fill:
                drawing.line((left + 6 + place * width, y + 27), (left + 3 + (place + 1) * width, y + 5), colour="line")
        if len(groups) < 7:
            x = left + 6 + len(groups) * width
            drawing.arrow((x + 30, y + 16), (x + 4, y + 16), colour="ours")
        drawing.text(left + width * 7 + 26, y + 21, words, "soft" if gone else "ink", size=12.5)
    return drawing


def layers() -> Drawing:
    """The layers, from adapters to the runtime."""
    drawing = Drawing(WIDTH, 378, "The layers: adapters, recording, faces, stores, codecs and heap, runtime")
    rows = (
        (
            ("compressed_array_sb3", "_sbx", "_torch"),
            "buffers: what to keep, what to sample, how to hand it over",
        ),
        (("recording",), "games, episode by episode"),
        (("CompressedArray", "torch.DeviceArray"), "the faces: like an ndarray; on a torch device"),
        (("stores",), "records by number: single items, or frames in time"),
        (("codecs", "heap"), "bytes to a payload and back; payloads in segments"),
        (("runtime",), "memory, threads, readers beside a writer, kernels"),
    )
    shares = {1: (1.0,), 2: (0.5, 0.5), 3: (0.5, 0.25, 0.25)}
    for number, (names, words) in enumerate(rows):
        y = 8 + number * 62
        x, whole = 6.0, WIDTH - 12
        for name, share in zip(names, shares[len(names)], strict=True):
            width = whole * share
            drawing.box(x + 1, y, width - 2, 32, "ours" if number == 2 else "other", fill=0.16 if number == 2 else 0.08)
            drawing.text(x + width / 2, y + 21, name, anchor="middle", mono=True, size=13)
            x += width
        drawing.text(WIDTH / 2, y + 47, words, "soft", anchor="middle", size=12)
    return drawing


DRAWINGS: dict[str, Callable[[], Drawing]] = {"stack": stack, "group": group, "segment": segment, "layers": layers}
