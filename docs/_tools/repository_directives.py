"""What pages show of the repository's other files, as far as they are there when the pages are built.

```{examples}                    a table of the programs in `examples/`, by their docstrings
```
````{when-there} learning.png    what follows, if `benchmarks/results` has that file
````
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from results import RESULTS, ROOT
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

EXAMPLES = ROOT / "examples"


def claim(program: Path) -> str:
    """What a program says of itself in the first sentence of its docstring."""
    words = (ast.get_docstring(ast.parse(program.read_text())) or "").partition("\n\n")[0]
    return " ".join(words.split())


class Examples(SphinxDirective):
    """The programs in `examples/`."""

    def run(self) -> Sequence[nodes.Node]:
        self.env.note_dependency(str(EXAMPLES))
        lines = ["| program | what it shows |", "|---|---|"]
        for program in sorted(EXAMPLES.glob("[!_]*.py")):
            self.env.note_dependency(str(program))
            file = f"{{download}}`{program.stem} </../examples/{program.name}>`"
            lines.append(f"| {file} | {claim(program)} |")
        shown = nodes.container(classes=["examples"])
        self.state.nested_parse(StringList(lines, source="examples"), self.content_offset, shown)
        return [shown]


class WhenThere(SphinxDirective):
    """What follows, where the file of results that it speaks of has been written."""

    required_arguments = 1
    has_content = True

    def run(self) -> Sequence[nodes.Node]:
        file = RESULTS / self.arguments[0]
        self.env.note_dependency(str(file))
        shown = nodes.container()
        missing = StringList([f"`benchmarks/results/{self.arguments[0]}` is not there yet."], source=self.arguments[0])
        self.state.nested_parse(self.content if file.exists() else missing, self.content_offset, shown)
        return shown.children


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("examples", Examples)
    app.add_directive("when-there", WhenThere)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
