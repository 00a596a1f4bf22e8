"""The version, and where its documentation is. Nothing is imported, so that reading it is quick."""

VERSION = "0.2.0"

# Every card, help text and error that points to a page uses this address. Cards are kept for years,
# so the address names the version: the page of a card never says something about other code.
DOCS_ADDRESS = f"https://bayesgram.readthedocs.io/en/v{VERSION}"


def page_address(page: str) -> str:
    """Return the address of a page of the documentation.

    Args:
        page: Its path below `docs`, without the ending.

    >>> page_address("howto/discover").removeprefix(DOCS_ADDRESS)
    '/howto/discover.html'
    """
    return f"{DOCS_ADDRESS}/{page}.html"


def docs_command(page: str) -> str:
    """Return the command that shows a page offline, in backquotes.

    >>> docs_command("howto/discover")
    '`bayesgram docs discover`'
    """
    return f"`bayesgram docs {page.rpartition('/')[2]}`"


def page_pointer(page: str) -> str:
    """Return what a message says to name a page: the command that shows it, and its address.

    >>> page_pointer("ledger").replace(DOCS_ADDRESS, "ADDRESS")
    '`bayesgram docs ledger` or ADDRESS/ledger.html'
    """
    return f"{docs_command(page)} or {page_address(page)}"
