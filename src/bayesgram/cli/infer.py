"""bayesgram infer: another posterior from the noisy measurements of a release."""

from pathlib import Path
from typing import Annotated

import typer

from bayesgram.cli import console, options
from bayesgram.cli.release import segments_told, show_segments
from bayesgram.cli.typed import typed_command


def infer(
    context: typer.Context,
    release: Annotated[
        Path,
        typer.Argument(
            metavar="RELEASE",
            help="A release folder with measured.parquet, or a folder of them by segment.",
            show_default=False,
        ),
    ],
    vocab: options.Vocab,
    output: options.Output,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Infer once more from the noisy measurements of a release, with other public text as the prior. Costs nothing.

    N-grams are matched by their text: those that were not measured stand as public text has them, moved by their words.

    Example: bayesgram infer out --vocab other.parquet -o out-2
    """
    from bayesgram.inference import reinfer
    from bayesgram.io.atomic import check_writable
    from bayesgram.public.vocabulary import Vocabulary
    from bayesgram.releases.previous import PreviousSegmentedRelease, open_previous
    from bayesgram.releases.release import CONTENTS, max_release_bytes
    from bayesgram.releases.segmented import SegmentedRelease, folder_contents

    given = open_previous(release)
    segments = given.segments if isinstance(given, PreviousSegmentedRelease) else None
    contents, folders = (
        (CONTENTS, 1) if segments is None else (folder_contents(segments), 1 + len(segments))
    )
    check_writable(output, force=force, contents=contents, inputs=[release, vocab])
    vocabulary = Vocabulary.load(vocab)
    check_writable(
        output,
        force=force,
        contents=contents,
        required_bytes=folders * max_release_bytes(vocabulary.ngrams),
    )
    with console.step("Inferring"):
        made = reinfer.infer(release, vocabulary).with_card_values(command=typed_command(context))
    made.save(output, force=force)
    whole = made.all if isinstance(made, SegmentedRelease) else made
    if json:
        console.print_json(
            {"output": str(output), "card": whole.card.to_json(), **segments_told(made, output)}
        )
        return
    console.write(f"{whole.card}\nWritten to: {output}")
    show_segments(made)
