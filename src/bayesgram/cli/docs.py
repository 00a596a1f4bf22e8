"""bayesgram docs: the pages of the documentation, from the installed package."""

import sys
from typing import Annotated

import typer

from bayesgram.cli import console, options


def docs(
    topic: Annotated[
        str | None,
        typer.Argument(
            metavar="[TOPIC]",
            help="The page to show, such as ledger or discover.",
            show_default="a list of all pages",
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Show a page of the documentation, without the internet.

    Without a topic, all pages are listed. A terminal shows headings and tables; a file or a pipe
    gets Markdown. A long page is read best with: bayesgram docs promise | less

    Example: bayesgram docs ledger
    """
    from bayesgram.manual import find_page, manual_pages

    if topic is None:
        pages = manual_pages().values()
        if json:
            rows = [
                {"topic": page.topic, "title": page.title, "address": page.address}
                for page in pages
            ]
            console.print_json({"pages": rows})
            return
        console.print_table(
            "Pages", ("topic", "title"), [(page.topic, page.title) for page in pages]
        )
        console.write("Begin with: bayesgram docs tutorial, or bayesgram docs keyboard")
        console.write("To read another page: bayesgram docs TOPIC")
        return
    page = find_page(topic)
    if json:
        console.print_json(
            {
                "topic": page.topic,
                "title": page.title,
                "address": page.address,
                "text": page.text,
            }
        )
    elif sys.stdout.isatty():
        console.print_markdown(page.text)
    else:
        sys.stdout.write(page.text)
