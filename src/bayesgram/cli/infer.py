"""bayesgram infer: another posterior from the noisy measurements of a release."""

from pathlib import Path
from typing import Annotated

import typer

from bayesgram.cli import console, options
from bayesgram.cli.typed import typed_command


def infer(
    context: typer.Context,
    release: Annotated[
        Path, typer.Argument(metavar="RELEASE", help="A release folder with measured.parquet.", show_default=False)
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
    from dataclasses import replace

    from bayesgram.files.writing import check_free
    from bayesgram.inference import again
    from bayesgram.public.vocabulary import Vocabulary
    from bayesgram.released.release import CONTENTS, largest_size

    check_free(output, force=force, contents=CONTENTS, inputs=[release, vocab])
    vocabulary = Vocabulary.load(vocab)
    check_free(output, force=force, contents=CONTENTS, room=largest_size(vocabulary.ngrams))
    with console.step("Inferring"):
        made = again.infer(release, vocabulary)
    made = replace(made, card=replace(made.card, command=typed_command(context)))
    made.save(output, force=force)
    if json:
        console.print_json({"output": str(output), "card": made.card.to_json()})
    else:
        console.out.print(f"{made.card}\nWritten to: {output}", markup=False, soft_wrap=True)
