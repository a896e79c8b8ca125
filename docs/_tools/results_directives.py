"""What pages are written with: tables and figures from the benchmarks, drawings and plots, in the page itself.

```{measured} replay                      a table; without a figure that it asks for, the build fails
stream: MsPacman
columns: {held: memory, "read 32 of SB3's": "`sample(32)`"}
rows: {CompressedReplayBuffer auto: "`CompressedReplayBuffer`"}
```
Instead of `rows`, `every: {SB3: Stable-Baselines3}` shows all of some streams, and what these are called.
{figure}`replay; MsPacman; CompressedReplayBuffer auto; held`     one figure, in a sentence
```{drawing} group                        an SVG of `drawings` or `plots`
```
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import yaml
from docutils import nodes
from docutils.parsers.rst import directives
from docutils.statemachine import StringList
from drawings import DRAWINGS
from plots import PLOTS
from results import RESULTS, ROOT, RUNS, NoSuchFigureError, figure, measured_with, rows
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective, SphinxRole

FIGURES = DRAWINGS | PLOTS


def labels(name: str, called: dict[str, str]) -> dict[str, str]:
    """Returns what a table calls each contender of some streams: by its name, and by what the stream is called."""
    there = dict.fromkeys((row["stream"], row["contender"]) for row in rows(name) if row["stream"] in called)
    return {
        f"{stream}; {who}": called[stream] if who == stream else f"`{who}`, {called[stream]}" for stream, who in there
    }


class Measured(SphinxDirective):
    """A table whose figures are those that a benchmark has written to its file."""

    required_arguments = 1
    has_content = True

    def run(self) -> Sequence[nodes.Node]:
        name = self.arguments[0]
        asked = yaml.safe_load("\n".join(self.content))
        self.env.note_dependency(str(RESULTS / f"{name}.csv"))
        lines = ["| | " + " | ".join(asked["columns"].values()) + " |", "|---" * (len(asked["columns"]) + 1) + "|"]
        try:
            contenders = labels(name, asked["every"]) if "every" in asked else asked["rows"]
            for contender, label in contenders.items():
                # A row may be of another stream: "stream; contender".
                stream, _, who = contender.rpartition("; ")
                cells = [
                    "" if measure in asked.get("without", {}).get(contender, ())
                    else figure(name, stream or asked["stream"], who, measure)
                    for measure in asked["columns"]
                ]  # fmt: skip
                lines.append(f"| {label} | " + " | ".join(cells) + " |")
        except NoSuchFigureError as error:
            raise self.error(str(error)) from error
        container = nodes.container(classes=["measured"])
        self.state.nested_parse(StringList(lines, source=name), self.content_offset, container)
        source = f"From `benchmarks/results/{name}.csv`; `nox -s bench -- {asked.get('command', name)}` measures it."
        note = nodes.container(classes=["measured-source"])
        if with_what := measured_with(name):
            self.env.note_dependency(str(RUNS))
            source += f" {with_what}"
        self.state.nested_parse(StringList([source], source=name), self.content_offset, note)
        return [container, note]


class Figure(SphinxRole):
    """One figure of a benchmark: its file, stream, contender and measure, between semicolons."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        name, *which = (part.strip() for part in self.text.split(";"))
        self.env.note_dependency(str(RESULTS / f"{name}.csv"))
        try:
            return [nodes.Text(figure(name, *which))], []
        except (NoSuchFigureError, TypeError) as error:
            message = self.inliner.reporter.error(f"figure {self.text!r}: {error}", line=self.lineno)
            return [nodes.problematic(self.rawtext, self.rawtext)], [message]


class InPlace(SphinxDirective):
    """A drawing or a plot, as part of the page, so that it has the colours of its theme."""

    required_arguments = 1
    has_content = True  # the caption
    option_spec: ClassVar[dict[str, Any]] = {"name": directives.unchanged}

    def run(self) -> Sequence[nodes.Node]:
        try:
            drawing = FIGURES[self.arguments[0]]()
        except KeyError:
            raise self.error(f"there is no drawing {self.arguments[0]!r}; there are {', '.join(FIGURES)}") from None
        except NoSuchFigureError as error:
            raise self.error(str(error)) from error
        for tool in (ROOT / "docs" / "_tools").glob("*.py"):
            self.env.note_dependency(str(tool))
        shown = nodes.container(classes=["drawing"])
        shown += nodes.raw("", drawing.svg(), format="html")
        caption = nodes.container(classes=["drawing-caption"])
        self.state.nested_parse(self.content, self.content_offset, caption)
        return [shown, caption] if self.content else [shown]


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("measured", Measured)
    app.add_directive("drawing", InPlace)
    app.add_role("figure", Figure())
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
