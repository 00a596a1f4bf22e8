"""Put the pages of the documentation into the wheel; everything else is in pyproject.toml.

`bayesgram docs` reads them. They are written in `docs`, outside the package, so that the site and
the repository show them; setuptools takes package data from inside a package only.
"""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

DOCS = Path("docs")


class BuildWithPages(build_py):
    """Copies docs/**/*.md to bayesgram/docs."""

    def run(self) -> None:
        """Build the package, then copy the pages; an editable install reads them in place."""
        super().run()
        if self.editable_mode:
            return
        for page in sorted(DOCS.rglob("*.md")):
            target = Path(self.build_lib, "bayesgram", page)
            self.mkpath(str(target.parent))
            self.copy_file(str(page), str(target))


setup(cmdclass={"build_py": BuildWithPages})
