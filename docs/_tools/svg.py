"""Drawings as SVG, written by hand: text that can be read and searched, in light and in dark.

In a page of the documentation a drawing takes its colours from the theme, by CSS variables; alone, as a picture in a
README, it asks the reader's system. Nothing is measured and nothing is random, so a drawing is the same everywhere.
"""

from __future__ import annotations

from html import escape

# Of each colour: its name in furo, if it has one, and what it is in light and in dark where furo is not.
COLOURS = {
    "ink": ("--color-foreground-primary", "#1c1e21", "#e6e8ea"),
    "soft": ("--color-foreground-secondary", "#5a5f66", "#a9afb6"),
    "line": ("--color-background-border", "#cfd4da", "#3d444d"),
    "ours": ("--ca-ours", "#c2410c", "#fb923c"),
    "other": ("--ca-other", "#2563a8", "#7ab3f0"),
    "quiet": ("--ca-quiet", "#8a929c", "#7d8792"),
}
FONT = "font-family:system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif"
MONO = "font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace"


def _style() -> str:
    light = "".join(f"--ca-d-{name}:{day};" for name, (_, day, _) in COLOURS.items())
    dark = "".join(f"--ca-d-{name}:{night};" for name, (_, _, night) in COLOURS.items())
    rules = ""
    for name, (theme, _, _) in COLOURS.items():
        colour = f"var({theme},var(--ca-d-{name}))"
        rules += f".ca-f-{name}{{fill:{colour}}}.ca-s-{name}{{stroke:{colour}}}"
    return f"svg.ca{{{light}}}@media(prefers-color-scheme:dark){{svg.ca{{{dark}}}}}{rules}"


class Drawing:
    """A sheet to draw on, in units that are pixels where the drawing is as wide as it says."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self.width, self.height, self.title = width, height, title
        self._parts: list[str] = []

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        colour: str = "ink",
        *,
        fill: float = 0.0,
        round: float = 3,
    ) -> None:
        """A box with an outline, filled as strongly as `fill` says, from 0 to 1."""
        self._parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="3" '
            f'class="ca-f-{colour} ca-s-{colour}" fill-opacity="{fill:g}" stroke-width="1.3"/>'
        )

    def bar(self, x: float, y: float, width: float, height: float, colour: str) -> None:
        self._parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="1.5" class="ca-f-{colour}"/>'
        )

    def dot(self, x: float, y: float, colour: str, *, radius: float = 4.5, hollow: bool = False) -> None:
        opacity = ' fill-opacity="0"' if hollow else ""
        self._parts.append(
            f'<circle cx="{x:g}" cy="{y:g}" r="{radius:g}" class="ca-f-{colour} ca-s-{colour}"{opacity} '
            f'stroke-width="1.6"/>'
        )

    def line(
        self, *points: tuple[float, float], colour: str = "soft", width: float = 1.3, dashed: bool = False
    ) -> None:
        way = " ".join(f"{x:g},{y:g}" for x, y in points)
        dashes = ' stroke-dasharray="4 4"' if dashed else ""
        self._parts.append(
            f'<polyline points="{way}" fill="none" class="ca-s-{colour}" stroke-width="{width:g}"{dashes}/>'
        )

    def arrow(self, *points: tuple[float, float], colour: str = "soft") -> None:
        """A line whose last stretch ends in a head; it has to be upright or level."""
        self.line(*points, colour=colour)
        (fx, fy), (x, y) = points[-2:]
        if fx == x:
            back = -6 if y > fy else 6
            head = f"{x:g},{y:g} {x - 4:g},{y + back:g} {x + 4:g},{y + back:g}"
        else:
            back = -6 if x > fx else 6
            head = f"{x:g},{y:g} {x + back:g},{y - 4:g} {x + back:g},{y + 4:g}"
        self._parts.append(f'<polygon points="{head}" class="ca-f-{colour}"/>')

    def text(
        self,
        x: float,
        y: float,
        words: str,
        colour: str = "ink",
        *,
        size: float = 13,
        anchor: str = "start",
        bold: bool = False,
        mono: bool = False,
    ) -> None:
        font = MONO if mono else FONT
        weight = ";font-weight:600" if bold else ""
        self._parts.append(
            f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" class="ca-f-{colour}" '
            f'style="{font};font-size:{size:g}px{weight}">{escape(words)}</text>'
        )

    def lines(self, x: float, y: float, words: list[str], colour: str = "ink", *, size: float = 13) -> None:
        """Some lines of text, one below the other."""
        for number, line in enumerate(words):
            self.text(x, y + number * size * 1.35, line, colour, size=size)

    def svg(self) -> str:
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="ca" viewBox="0 0 {self.width} {self.height}" '
            f'width="{self.width}" height="{self.height}" role="img" aria-label="{escape(self.title)}">'
            f"<title>{escape(self.title)}</title><style>{_style()}</style>{''.join(self._parts)}</svg>\n"
        )
