"""Show examples of docstrings as code on the site.

Docstrings end with examples that `make test` runs. Without a section "Examples:" above them,
mkdocstrings takes `>>>` for three nested quotations and `[('red', 0.25)]` for a link. This
extension of Griffe, which reads the docstrings, puts every example into a block of code first.
"""

import re
from typing import Any

import griffe

# An example: its first line, and all lines up to an empty one.
EXAMPLE = re.compile(r"(?:^|(?<=\n))((?:[ ]*)>>> .*(?:\n[ ]*\S.*)*)")


def fence_examples(docstring: str) -> str:
    """Return a docstring whose examples are in blocks of code."""
    if re.search(r"^\s*Examples?:\s*$", docstring, re.MULTILINE):
        return docstring  # Griffe knows this section
    return EXAMPLE.sub(r"```python\n\1\n```", docstring)


class DoctestBlocks(griffe.Extension):
    """Fences the examples of everything that has a docstring."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:  # noqa: ANN401 - of Griffe
        """Change the docstring of an object that was just read."""
        if obj.docstring is not None:
            obj.docstring.value = fence_examples(obj.docstring.value)
