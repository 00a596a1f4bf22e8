"""bayesgram docs: pages of the documentation, offline."""

import json
import os
import re
from pathlib import Path

import pytest

from bayesgram import manual
from bayesgram.errors import BayesgramError
from bayesgram.version import DOCS_ADDRESS, VERSION
from helpers import commands

ROOT = Path(__file__).parents[2]
DOCS = sorted((ROOT / "docs").rglob("*.md"))


def test_a_page_is_shown_as_it_was_written(tmp_path):
    for topic in ("ledger", "Ledger.md", "howto/discover"):
        name = topic.lower().removesuffix(".md")
        page = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
        assert commands.check_output("docs", topic, cwd=tmp_path) == page


def test_every_page_is_listed_once(tmp_path):
    listed = json.loads(commands.check_output("docs", "--json", cwd=tmp_path))["pages"]
    assert [page["topic"] for page in listed] == sorted(path.stem for path in DOCS)
    assert len({page["address"] for page in listed}) == len(DOCS)
    table = commands.check_output("docs", cwd=tmp_path)
    assert all(page["topic"] in table for page in listed)


def test_a_page_as_json_has_its_address(tmp_path):
    page = json.loads(commands.check_output("docs", "discover", "--json", cwd=tmp_path))
    assert page["address"] == f"{DOCS_ADDRESS}/howto/discover.html"
    assert page["text"].startswith(f"# {page['title']}\n")


def test_an_unknown_page_names_the_next_step(tmp_path):
    message = commands.expect_refusal("docs", "legder", cwd=tmp_path)
    assert message == (
        "legder: there is no such page. Did you mean ledger? `bayesgram docs` lists all pages."
    )
    assert "Did you mean" not in commands.expect_refusal("docs", "zzzzzz", cwd=tmp_path)


@pytest.mark.posix("a pseudo-terminal")
def test_a_terminal_shows_headings_and_tables(tmp_path):
    import pty

    parent, child = pty.openpty()
    process = os.posix_spawn(
        commands.PROGRAM,
        [str(commands.PROGRAM), "docs", "glossary"],
        {**os.environ, "COLUMNS": "80", "TERM": "xterm"},
        file_actions=[(os.POSIX_SPAWN_DUP2, child, 1)],
    )
    os.close(child)
    shown = b""
    while True:
        try:
            piece = os.read(parent, 65536)
        except OSError:  # the other side is closed
            break
        if not piece:
            break
        shown += piece
    assert os.waitpid(process, 0)[1] == 0
    assert b"Glossary" in shown
    assert b"|---|" not in shown


def test_an_installation_without_pages_says_where_they_are(tmp_path, monkeypatch):
    monkeypatch.setattr(manual, "_FOLDERS", (tmp_path,))
    with pytest.raises(BayesgramError, match=rf"has no pages.*{re.escape(DOCS_ADDRESS)}/index"):
        manual.find_page("ledger")


def test_every_page_that_messages_name_exists():
    """`bayesgram docs TOPIC` in the sources, and the pages that `version` gives addresses to."""
    text = "\n".join(
        path.read_text(encoding="utf-8") for path in (ROOT / "src" / "bayesgram").rglob("*.py")
    )
    named = set(re.findall(r"(?:page_pointer|page_address|docs_command)\(['\"]([\w/-]+)", text))
    topics = set(re.findall(r"bayesgram docs (?:\" *\")?([a-z][a-z-]+)", text))
    assert {"ledger", "errata", "files", "index"} <= named
    assert all((ROOT / "docs" / f"{page}.md").exists() for page in named)
    assert topics <= {path.stem for path in DOCS} | {"lists"}


def test_the_address_names_the_version():
    assert DOCS_ADDRESS.endswith(f"/v{VERSION}")
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert f"site_url: {DOCS_ADDRESS}/\n" in settings
