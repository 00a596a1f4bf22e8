"""bayesgram serve: releases on a page in the browser."""

import sys
import threading
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bayesgram.cli import console, named_inputs, options
from bayesgram.cli.options import parse_int
from bayesgram.errors import UsageError

if TYPE_CHECKING:
    from bayesgram.web.server import Address

DEFAULT_PORT = 8765
EXPOSED = (
    "warning: the page can be reached from other machines. Whoever has the token sees these"
    " releases, and the connection is not encrypted. Beyond a network that you trust, use a proxy"
    " with TLS or an SSH tunnel."
)


def serve(
    releases: Annotated[
        list[str],
        typer.Argument(
            metavar="RELEASE...",
            help="Release folders, or folders of them; NAME=PATH gives one a name.",
            show_default=False,
        ),
    ],
    vocab: Annotated[
        list[Path] | None,
        typer.Option(
            help="The vocabulary of the releases: adds public text to compare with, and planning;"
            " may be repeated.",
            show_default="that of the public model",
        ),
    ] = None,
    public_options: options.PublicModelOptions = options.FIND_PUBLIC,
    block_options: options.BlockOptions = options.DEFAULT_BLOCK,
    host: Annotated[
        str, typer.Option(help="The address to listen on. Other machines need a token.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(parser=parse_int, help="The port; 0 takes any free one.")
    ] = DEFAULT_PORT,
    token: Annotated[
        str | None,
        typer.Option(
            help="The token that a visitor must have.",
            envvar="BAYESGRAM_TOKEN",
            show_default="made where one is needed",
        ),
    ] = None,
    tokenizer: options.TokenizerName = None,
    open_: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page in a browser.")
    ] = False,
    json: options.Json = False,
) -> None:
    """Show releases on a page in the browser.

    On the page you can type with the releases, browse them, compare them, read what ε means, and
    plan the next one.

    Suggestions are those of the model that `predict` uses. It starts from the public model of the
    release's vocabulary, if that is found near the release.

    Only this machine can reach the page, unless --host says otherwise. The page reads releases and
    public text, nothing else.

    Example: bayesgram serve demo/releases mine=out --vocab vocab.parquet
    """
    from bayesgram.public.release_model import PublicModels
    from bayesgram.releases.release import Release
    from bayesgram.web.api import build
    from bayesgram.web.catalogue import Builder
    from bayesgram.web.server import open_address, run

    if vocab and public_options.public is not None:
        raise UsageError(
            "--vocab and --public: a public model has its vocabulary; leave --vocab out."
        )
    publics = PublicModels(**public_options.arguments)
    blocklist = block_options.blocklist
    paths = named_inputs.release_names(releases, name_segments=True)
    loaded = [(name, Release.load(path)) for path, name in paths.items()]
    publics.check_named(loaded)
    public_models = {
        name: publics.find(release, path)
        for path, (name, release) in zip(paths, loaded, strict=True)
    }
    distinct_models = list(dict.fromkeys(filter(None, [publics.named, *public_models.values()])))
    vocabularies = [model.vocabulary for model in distinct_models]
    if vocab:
        vocabularies = named_inputs.load_vocabularies_of(vocab, loaded)
    stated_tokenizer = None if tokenizer is None else options.load_tokenizer(tokenizer)
    address = open_address(host, port, token)
    named_inputs.print_public_models(public_models.items())
    with address.listening:
        builder = Builder(
            console.step,
            next(iter(vocabularies), None),
            stated_tokenizer,
            distinct_models,
            others=vocabularies[1:],
            blocklist=blocklist,
        )
        guard = build(builder.build(loaded), address.policy)
        run(guard, address, ready=lambda: _print_address(address, open_=open_, json=json))
    console.print_note("Stopped.")


def _print_address(address: "Address", *, open_: bool, json: bool) -> None:
    """Print where the page is and who can see it, and open it in a browser if asked for."""
    if not address.is_loopback:
        console.print_note(EXPOSED)
    if json:
        console.print_json(
            {
                "address": address.url,
                "token": address.policy.token,
                "loopback": address.is_loopback,
            }
        )
        sys.stdout.flush()  # whoever started this waits for it
    else:
        console.write(f"The page is at {address.url}")
    console.print_note("Press Ctrl-C to stop.")
    if open_:
        threading.Thread(target=webbrowser.open, args=(address.url,), daemon=True).start()
