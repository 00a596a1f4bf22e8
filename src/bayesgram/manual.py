"""The pages of the documentation, as they are installed with the package.

A wheel has a copy of `docs/**/*.md` in the folder `docs` of the package (`setup.py` puts it there).
In a checkout there is no copy, and the pages are read where they are written.
"""

from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from bayesgram.errors import BayesgramError, UsageError
from bayesgram.version import page_address

_PACKAGE = Path(__file__).parent
_FOLDERS = (_PACKAGE / "docs", _PACKAGE.parents[1] / "docs")  # of a wheel, of a checkout


@dataclass(frozen=True)
class ManualPage:
    """One page of the documentation.

    Attributes:
        topic: The name under which `bayesgram docs` shows it.
        title: Its first heading.
        address: Where it is on the web.
        path: The file.
    """

    topic: str
    title: str
    address: str
    path: Path

    @property
    def text(self) -> str:
        """The whole page, in Markdown."""
        return self.path.read_text(encoding="utf-8")


def manual_pages() -> dict[str, ManualPage]:
    """Return every page by its topic, sorted by topic.

    Raises:
        BayesgramError: If the package was installed without its pages.
    """
    folder = next((folder for folder in _FOLDERS if (folder / "index.md").exists()), None)
    if folder is None:
        raise BayesgramError(
            "this installation has no pages. Install the wheel again, or read"
            f" {page_address('index')}."
        )
    pages = (_read_page(path, folder) for path in folder.rglob("*.md"))
    return {page.topic: page for page in sorted(pages, key=lambda page: page.topic)}


def find_page(topic: str) -> ManualPage:
    """Return the page of a topic, such as `ledger`, `ledger.md` or `howto/discover`.

    Raises:
        UsageError: If there is no such page.
    """
    pages = manual_pages()
    name = topic.lower().removesuffix(".md").rpartition("/")[2]
    if name in pages:
        return pages[name]
    matches = get_close_matches(name, pages, n=3, cutoff=0.5)
    advice = f"Did you mean {' or '.join(matches)}? " if matches else ""
    raise UsageError(f"{topic}: there is no such page. {advice}`bayesgram docs` lists all pages.")


def _read_page(path: Path, folder: Path) -> ManualPage:
    page = path.relative_to(folder).with_suffix("").as_posix()
    with path.open(encoding="utf-8") as lines:
        title = next(line for line in lines if line.startswith("# ")).removeprefix("# ").strip()
    return ManualPage(path.stem, title, page_address(page), path)
