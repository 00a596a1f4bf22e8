"""bayesgram interpolate: several language models mixed into one."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayesgram.cli import console, options
from bayesgram.cli.numbers import real, several
from bayesgram.errors import UsageError

if TYPE_CHECKING:
    from bayesgram.arrays import Floats
    from bayesgram.released.language_model import LanguageModel
    from bayesgram.text.tokens import Tokenizer

ARPA_ENDINGS = (".arpa", ".arpa.gz")


def interpolate(
    models: Annotated[
        list[Path],
        typer.Argument(
            metavar="MODEL...", help="Release folders, model folders or ARPA files, two or more.", show_default=False
        ),
    ],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="A name that ends with .arpa or .arpa.gz, or a model folder."),
    ],
    weights: Annotated[
        str | None, typer.Option(help="How much each model counts: 0.6,0.4.", show_default="equal")
    ] = None,
    tune: Annotated[
        str | None,
        typer.Option(
            help="Public text under which the weights are the likeliest: a file, folder or quoted pattern.",
            show_default=False,
        ),
    ] = None,
    cut: options.Cut = options.AS_USUAL,
    text_column: options.TextColumn = "text",
    skip_bad_rows: options.SkipBadRows = False,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Mix language models: p = Σ λ p of each. At no privacy cost; those about the same people cost what all of them do.

    ARPA files don't say how text was cut for them: as for the other models, or as --tokenizer and --keep-case say.
    Never tune by private text: the weights would tell of it.

    Example: bayesgram interpolate model.arpa out --tune public-held-out.txt -o mixed.arpa
    """
    from bayesgram.files.writing import check_writable
    from bayesgram.released.arpa import write_arpa
    from bayesgram.released.interpolation import checked_weights
    from bayesgram.released.interpolation import interpolate as mix
    from bayesgram.released.model_files import REPLACED

    for model in models:
        if models.count(model) > 1:
            raise UsageError(f"{model}: is given twice; give each once.")
    as_arpa = output.name.lower().endswith(ARPA_ENDINGS)
    check_writable(output, force=force, contents=None if as_arpa else REPLACED, inputs=[*models])
    if weights is not None and tune is not None:
        raise UsageError("--weights and --tune: give one of them; --tune finds the weights.")
    given = checked_weights(None if weights is None else several("weights", weights, real, "0.6,0.4"), len(models))
    with console.step("Reading models"):
        opened = _opened(models, cut.stated)
    if tune is not None:
        given = _tuned(opened, tune, text_column=text_column, skip_bad_rows=skip_bad_rows)
    with console.step("Mixing"):
        mixed = mix(opened, given)
        for part, path in zip(mixed.about["interpolated"], models, strict=True):
            part["model"] = path.name
    with console.step("Writing"):
        if as_arpa:
            write_arpa(mixed, output, force=force)
        else:
            mixed.save(output, force=force)
    shares = dict(zip(map(str, models), given.tolist(), strict=True))
    report: dict[str, Any] = {"output": str(output), "order": mixed.order, "ngrams": mixed.sizes}
    report["weights"] = shares if json else ", ".join(f"{name} {share:.4f}" for name, share in shares.items())
    report |= {"label": mixed.label} if mixed.ingredients else {}
    console.report(report, json=json)
    console.warn_unless_proved(output, mixed.ingredients)


def _opened(paths: list[Path], stated: "Tokenizer | None") -> "list[LanguageModel]":
    """The models; an ARPA file is cut as stated, or else as the first model that says how."""
    from bayesgram.released.language_model import LanguageModel

    found = {path: LanguageModel.open(path, tokenizer=stated) for path in paths if path.is_dir()}
    cut = stated or next((model.tokenizer for model in found.values()), None)
    found |= {path: LanguageModel.open(path, tokenizer=cut) for path in paths if path not in found}
    return [found[path] for path in paths]


def _tuned(models: "list[LanguageModel]", source: str, *, text_column: str, skip_bad_rows: bool) -> "Floats":
    from bayesgram.released.interpolation import tune_weights

    with console.reading("Reading text", then="Tuning") as bar:
        records = bar.records([source], text_column=text_column, user_column=None, skip_bad_rows=skip_bad_rows)
        return tune_weights(models, (batch.text for batch in records))
