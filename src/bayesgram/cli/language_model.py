"""bayesgram export, import and predict: from a release to a language model, and to files that other programs read.

bayesgram interpolate: several language models mixed into one.
"""

from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayesgram.cli import console, options
from bayesgram.cli.options import real, several
from bayesgram.errors import UsageError

if TYPE_CHECKING:
    from bayesgram.arrays import Floats
    from bayesgram.lm.language_model import Build, LanguageModel
    from bayesgram.releases.release import Release
    from bayesgram.text.tokenizer import Tokenizer


class Format(StrEnum):
    """What `export` writes."""

    ARPA = "arpa"
    TSV = "tsv"
    JSONL = "jsonl"
    PARQUET = "parquet"
    MODEL = "model"
    BIAS = "bias"


MODELS = (Format.ARPA, Format.MODEL)
Source = Annotated[
    Path,
    typer.Argument(
        metavar="RELEASE", help="A release folder, or a public model.", show_default=False
    ),
]


def export(
    release: Source,
    output: options.Output,
    format_: Annotated[
        Format,
        typer.Option(
            "--format",
            help="arpa (also .gz) or model: a language model; tsv, jsonl, parquet: the n-grams; bias: words and their"
            " log-ratios to public text.",
            show_default=False,
        ),
    ],
    public: Annotated[
        Path | None,
        typer.Option(
            help="The public model of the release's vocabulary (`vocab --model`): moved by the release it is far better"
            " than the release alone, and it is free.",
            show_default=False,
        ),
    ] = None,
    vocab: Annotated[
        Path | None,
        typer.Option(help="The vocabulary of the release, for --format bias.", show_default=False),
    ] = None,
    case_from: Annotated[
        str | None,
        typer.Option(
            help="Public text that shows which words are names: suggestions are written so.",
            show_default=False,
        ),
    ] = None,
    text_column: options.TextColumn = "text",
    prune: Annotated[
        int | None,
        typer.Option(
            help="How many n-grams, of all orders, a model keeps; or words, a bias list.",
            show_default="all",
        ),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(help="Which source of a public model.", show_default="its only one"),
    ] = None,
    quantize: Annotated[
        int | None,
        typer.Option(
            metavar="BITS",
            help="Round probabilities to so many bits in a model folder: 8 halve it.",
            show_default="exact, or 8 with --max-size",
        ),
    ] = None,
    max_size: Annotated[
        str | None,
        typer.Option(
            help="How large a model folder may be, such as 10MB: pruned to fit.", show_default=False
        ),
    ] = None,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Export a release: as a language model, or as a table. Post-processing, so at no privacy cost.

    Of a public model (`vocab --model`), the language model of one source.

    Example: bayesgram export out --format arpa -o model.arpa.gz
    """
    from bayesgram.io.atomic import check_writable
    from bayesgram.lm.files import REPLACED
    from bayesgram.public.public_model import is_public_model
    from bayesgram.releases.release import Release

    contents = REPLACED if format_ is Format.MODEL else None
    given = [path for path in (public, vocab) if path is not None]
    check_writable(output, force=force, contents=contents, inputs=[release, *given])
    _check_for_models(
        format_,
        public=public,
        prune=prune,
        case_from=case_from,
        quantize=quantize,
        max_size=max_size,
    )
    if vocab is not None or format_ is Format.BIAS:
        _export_bias(release, vocab, output, format_, source, prune, force=force, json=json)
        return
    limit = options.size("max_size", max_size) if max_size else None
    if is_public_model(release):
        unused = any(each is not None for each in (public, prune, limit))
        written = partial(_casing, source=case_from, text_column=text_column)
        _export_public(
            release,
            source,
            output,
            format_,
            written,
            bits=quantize,
            unused=unused,
            force=force,
            json=json,
        )
        return
    if source is not None:
        raise UsageError(f"--source {source}: {release} is no public model; leave it out.")
    loaded = Release.load(release)
    report: dict[str, Any] = {
        "output": str(output),
        "format": str(format_),
        "claim": loaded.card.claim,
    }
    label, ingredients = loaded.card.guarantee.name, loaded.provenance(release.name).ingredients
    if format_ in MODELS:
        casing = _casing(loaded.card.vocabulary["tokenizer"], case_from, text_column)
        with console.step("Building the model"):
            build = _build(loaded, public)
            model = _fitted(
                lambda most: _cased(build(prune=prune if most is None else most), casing),
                quantize,
                limit,
            )
        label, ingredients = model.label, model.ingredients
        report |= {"cased_words": len(model.casing)} if case_from else {}
        report |= {"order": model.order, "ngrams": model.sizes}
        report |= {"bytes": model.size_on_disk} if format_ is Format.MODEL else {}
    with console.step("Writing"):
        if format_ in MODELS:
            _write_model(model, output, format_, force=force)
        else:
            from bayesgram.lm import export

            {"tsv": export.write_tsv, "jsonl": export.write_jsonl, "parquet": export.write_parquet}[
                format_
            ](loaded, output, force=force)
            report["ngrams"] = len(loaded.ngrams)
    console.report({**report, "label": label}, json=json)
    console.warn_unless_proved(output, ingredients)


def _check_for_models(
    format_: Format,
    *,
    public: Path | None,
    prune: int | None,
    case_from: str | None,
    quantize: int | None,
    max_size: str | None,
) -> None:
    """Refuse options of models with other formats, and those that contradict each other."""
    if format_ not in MODELS and (public or (prune is not None and format_ is not Format.BIAS)):
        raise UsageError(
            f"--public and --prune are for models, not for --format {format_}; leave them out."
        )
    if case_from and format_ is not Format.MODEL:
        raise UsageError(
            f"--case-from is for model folders, not for --format {format_}; leave it out."
        )
    if format_ is not Format.MODEL and (quantize is not None or max_size):
        raise UsageError(
            f"--quantize and --max-size are for --format model, not for {format_}; leave them out."
        )
    if max_size and prune is not None:
        raise UsageError(
            "--max-size and --prune both say how many n-grams stay; leave one of them out."
        )


def _export_bias(
    path: Path,
    vocab: Path | None,
    output: Path,
    format_: Format,
    source: str | None,
    most: int | None,
    *,
    force: bool,
    json: bool,
) -> None:
    """Export the log-ratios of words."""
    from bayesgram.cli.named_inputs import matching
    from bayesgram.lm.adaptation import WordLifts
    from bayesgram.lm.export import write_bias
    from bayesgram.releases.release import Release

    if format_ is not Format.BIAS:
        raise UsageError(f"--vocab is for --format bias, not for --format {format_}; leave it out.")
    if vocab is None:
        raise UsageError(
            "--format bias: compares a release with public text; give its vocabulary with --vocab."
        )
    if source is not None:
        raise UsageError(
            f"--source {source}: is for public models, and --format bias is of a release; leave it out."
        )
    loaded = Release.load(path)
    lifts = WordLifts.of(loaded, matching(vocab, [(str(path), loaded)]))
    with console.step("Writing"):
        written = write_bias(lifts, output, most=most, force=force)
    report = {
        "output": str(output),
        "format": str(format_),
        "claim": loaded.card.claim,
        "words": written,
    }
    console.report({**report, "label": loaded.card.guarantee.name}, json=json)
    console.warn_unless_proved(output, loaded.provenance(path.name).ingredients)


def _export_public(
    path: Path,
    source: str | None,
    output: Path,
    format_: Format,
    written: Callable[[str], dict[str, str]],
    *,
    bits: int | None,
    unused: bool,
    force: bool,
    json: bool,
) -> None:
    """Export the model of one public source."""
    from bayesgram.public.public_model import PublicModel

    if format_ not in MODELS:
        raise UsageError(
            f"--format {format_}: a public model is a language model; choose arpa or model."
        )
    if unused:
        raise UsageError(
            "--public, --prune and --max-size: a public model is made smaller by `vocab --model-size`; leave them out."
        )
    loaded = PublicModel.load(path)
    if source is None and len(loaded.models) > 1:
        raise UsageError(
            f"{path}: has the sources {', '.join(loaded.source_names)}; name one with --source."
        )
    name = loaded.source_names[0] if source is None else source
    model = _cased(loaded[name], written(loaded.tokenizer.name))
    model = model if bits is None else model.quantised(bits)
    with console.step("Writing"):
        _write_model(model, output, format_, force=force)
    report: dict[str, Any] = {"output": str(output), "format": str(format_), "source": name}
    report |= {"order": model.order, "ngrams": model.sizes}
    report |= {"bytes": model.size_on_disk} if format_ is Format.MODEL else {}
    report |= {"label": model.label} if model.ingredients else {}
    console.report(report, json=json)
    console.warn_unless_proved(output, model.ingredients)


def _fitted(build: "Build", bits: int | None, limit: int | None) -> "LanguageModel":
    """The model that the options ask for."""
    from bayesgram.lm.language_model import fitted
    from bayesgram.lm.quantisation import BITS

    if limit is not None:
        return fitted(build, limit, bits=BITS if bits is None else bits)
    return build(None) if bits is None else build(None).quantised(bits)


def _build(release: "Release", public: Path | None) -> "Callable[..., LanguageModel]":
    """How a model of a release is made, with all of public text or without."""
    from bayesgram.lm.language_model import LanguageModel
    from bayesgram.public.public_model import PublicModel

    if public is None:
        return partial(LanguageModel.from_release, release)
    whole = PublicModel.load(public).adapt_to(release)
    return lambda prune: whole if prune is None else whole.pruned(prune)


def _casing(tokenizer: str, source: str | None, text_column: str) -> dict[str, str]:
    """How public text, if some is given, writes words that are not in lower case."""
    from bayesgram.lm.language_model import CaseCounter
    from bayesgram.text.tokenizer import Tokenizer

    if not source:
        return {}
    counter = CaseCounter(Tokenizer.from_name(tokenizer))
    with console.reading("Reading text", then="Casing words") as bar:
        for batch in bar.records(
            [source], text_column=text_column, user_column=None, skip_bad_rows=False
        ):
            counter.add(batch.text)
    return counter.casing()


def _cased(model: "LanguageModel", casing: dict[str, str]) -> "LanguageModel":
    """The model, and how its words are written."""
    if not casing:
        return model
    words = [word.decode() for word in model.trie.words.all()]
    return replace(model, casing={word: casing[word] for word in words if word in casing})


def _write_model(model: "LanguageModel", output: Path, format_: Format, *, force: bool) -> None:
    from bayesgram.lm.arpa import write_arpa

    if format_ is Format.MODEL:
        model.save(output, force=force)
    else:
        write_arpa(model, output, force=force)


def import_arpa(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="An ARPA file, also .gz.", show_default=False)
    ],
    output: options.Output,
    cut: options.Cut = options.AS_USUAL,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Check an ARPA file strictly and keep it as a model folder, which loads at once.

    ARPA files don't say how text was cut for them: --tokenizer and --keep-case do, if not into lower-case words.

    Example: bayesgram import model.arpa.gz -o model
    """
    from bayesgram.io.atomic import check_writable
    from bayesgram.lm.arpa import read_arpa
    from bayesgram.lm.files import REPLACED

    check_writable(output, force=force, contents=REPLACED, inputs=[file])
    with console.step("Reading"):
        model = read_arpa(file, tokenizer=cut.named)
    model.save(output, force=force)
    report = {
        "output": str(output),
        "order": model.order,
        "ngrams": model.sizes,
        "tokenizer": model.tokenizer.name,
    }
    console.report(report, json=json)


def predict(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL", help="A release, a model folder or an ARPA file.", show_default=False
        ),
    ],
    text: Annotated[
        str,
        typer.Argument(
            metavar="TEXT", help="What stands before the next word.", show_default=False
        ),
    ],
    k: Annotated[int, typer.Option("--k", "-k", help="How many words.")] = 5,
    typed: Annotated[str, typer.Option(help="How the next word begins.", show_default=False)] = "",
    cache: Annotated[
        float,
        typer.Option(help="How much the words of TEXT itself count, from 0: 0.15 is a good share."),
    ] = 0.0,
    capitals: Annotated[
        bool,
        typer.Option(
            "--capitals", help="Write lower-case words as the sentence and --typed ask for."
        ),
    ] = False,
    tokenizer: options.TokenizerOption = None,
    json: options.Json = False,
) -> None:
    """Show the likeliest next words. A release is made into a model first; `export --format model` saves that.

    Example: bayesgram predict out "thank you"
    """
    from time import perf_counter

    from bayesgram.lm.files import ABOUT
    from bayesgram.lm.language_model import LanguageModel

    start = perf_counter()
    cut = None if tokenizer is None else options.tokenizer(tokenizer, keep_case=None)
    opened = LanguageModel.open(model, tokenizer=cut)
    if not (model / ABOUT).is_file():
        console.say(
            f"Built in {perf_counter() - start:.1f} s; a model folder is there at once: bayesgram"
            f" {'export' if model.is_dir() else 'import'} {model} {'--format model ' * model.is_dir()}-o model"
        )
    found = opened.predict(text, k, typed=typed, cache=cache, capitals=capitals)
    if json:
        console.print_json({"text": text, "predictions": [each._asdict() for each in found]})
        return
    console.print_table(
        f"After {text!r}",
        ("word", "p"),
        [(each.word, f"{each.probability:.4f}") for each in found],
        right=("p",),
    )


ARPA_ENDINGS = (".arpa", ".arpa.gz")


def interpolate(
    models: Annotated[
        list[Path],
        typer.Argument(
            metavar="MODEL...",
            help="Release folders, model folders or ARPA files, two or more.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", help="A name that ends with .arpa or .arpa.gz, or a model folder."
        ),
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
    from bayesgram.io.atomic import check_writable
    from bayesgram.lm.arpa import write_arpa
    from bayesgram.lm.files import REPLACED
    from bayesgram.lm.interpolation import checked_weights
    from bayesgram.lm.interpolation import interpolate as mix

    for model in models:
        if models.count(model) > 1:
            raise UsageError(f"{model}: is given twice; give each once.")
    as_arpa = output.name.lower().endswith(ARPA_ENDINGS)
    check_writable(output, force=force, contents=None if as_arpa else REPLACED, inputs=[*models])
    if weights is not None and tune is not None:
        raise UsageError("--weights and --tune: give one of them; --tune finds the weights.")
    given = checked_weights(
        None if weights is None else several("weights", weights, real, "0.6,0.4"), len(models)
    )
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
    report["weights"] = (
        shares if json else ", ".join(f"{name} {share:.4f}" for name, share in shares.items())
    )
    report |= {"label": mixed.label} if mixed.ingredients else {}
    console.report(report, json=json)
    console.warn_unless_proved(output, mixed.ingredients)


def _opened(paths: list[Path], stated: "Tokenizer | None") -> "list[LanguageModel]":
    """The models; an ARPA file is cut as stated, or else as the first model that says how."""
    from bayesgram.lm.language_model import LanguageModel

    found = {path: LanguageModel.open(path, tokenizer=stated) for path in paths if path.is_dir()}
    cut = stated or next((model.tokenizer for model in found.values()), None)
    found |= {path: LanguageModel.open(path, tokenizer=cut) for path in paths if path not in found}
    return [found[path] for path in paths]


def _tuned(
    models: "list[LanguageModel]", source: str, *, text_column: str, skip_bad_rows: bool
) -> "Floats":
    from bayesgram.lm.interpolation import tune_weights

    with console.reading("Reading text", then="Tuning") as bar:
        records = bar.records(
            [source], text_column=text_column, user_column=None, skip_bad_rows=skip_bad_rows
        )
        return tune_weights(models, (batch.text for batch in records))
