"""bayesgram export, import, predict and interpolate: from a release to a language model.

Language models and tables are written to files that other programs read, and models are mixed.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayesgram.cli import console, named_inputs, options
from bayesgram.cli.options import parse_float, parse_int, parse_list
from bayesgram.errors import UsageError

if TYPE_CHECKING:
    from bayesgram.arrays import Floats
    from bayesgram.lm.language_model import LanguageModel
    from bayesgram.public.release_model import ReleaseModel
    from bayesgram.releases.provenance import Ingredient
    from bayesgram.releases.release import Release
    from bayesgram.text.blocklist import Blocklist
    from bayesgram.text.tokenizer import Tokenizer

# --- export ---


class Format(StrEnum):
    """The formats that `export` writes: a language model, or a table of n-grams or words."""

    ARPA = "arpa"
    TSV = "tsv"
    JSONL = "jsonl"
    PARQUET = "parquet"
    MODEL = "model"
    BIAS = "bias"
    AOSP = "aosp"
    SUGGEST = "suggest"
    HUNSPELL = "hunspell"
    HUB = "hub"


MODEL_FORMATS = (Format.ARPA, Format.MODEL)
CONSUMER_FORMATS = (Format.AOSP, Format.SUGGEST, Format.HUNSPELL, Format.HUB)
CASED_FORMATS = (Format.MODEL, Format.AOSP, Format.HUNSPELL)
ARPA_SUFFIXES = (".arpa", ".arpa.gz")
SUGGEST_SUFFIXES = (".tsv", ".txt", ".jsonl")
DEFAULT_LOCALE = "en"


def export(  # noqa: PLR0915 - one step after another
    release: Annotated[
        Path,
        typer.Argument(
            metavar="RELEASE", help="A release folder, or a public model.", show_default=False
        ),
    ],
    output: options.Output,
    stated_format: Annotated[
        Format | None,
        typer.Option(
            "--format",
            help="arpa (also .gz) or model: a language model; tsv, jsonl, parquet: the n-grams;"
            " bias: words and their log-ratios to public text; aosp: a keyboard's word list;"
            " suggest: for Lucene (.tsv, .txt) or Elasticsearch (.jsonl); hunspell: a folder for a"
            " spell checker; hub: a dataset folder.",
            show_default="by the ending of OUTPUT; model without one",
        ),
    ] = None,
    public_options: options.PublicModelOptions = options.FIND_PUBLIC,
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
    dialect: options.DialectOptions = options.READ_AS_USUAL,
    prune: Annotated[
        int | None,
        typer.Option(
            parser=parse_int,
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
            parser=parse_int,
            metavar="BITS",
            help="Round probabilities to so many bits in a model folder: 8 halve it.",
            show_default="exact, or 8 with --max-size",
        ),
    ] = None,
    block_options: options.BlockOptions = options.DEFAULT_BLOCK,
    min_count: Annotated[
        int | None,
        typer.Option(
            parser=parse_int,
            help="Leave out n-grams whose count, less two deviations, is below this; not for"
            " models and bias lists.",
            show_default="all stay",
        ),
    ] = None,
    locale: Annotated[
        str | None,
        typer.Option(
            help="The language, for aosp, hunspell and hub: en, pt_BR.", show_default=DEFAULT_LOCALE
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
    verbose: options.Verbose = False,
) -> None:
    """Export a release: as a language model, or as a table. Post-processing, so at no privacy cost.

    A language model starts from the public model of the release's vocabulary, which `bayesgram
    vocab` keeps beside the vocabulary. It is looked for in the folder of the release and the one
    above it, in the current folder, and beside the vocabulary.

    Of a public model, the language model of one source is exported.

    Example: bayesgram export out -o model
    """
    from bayesgram.io.atomic import check_writable
    from bayesgram.public.public_model import is_public_model
    from bayesgram.public.release_model import ReleaseModel
    from bayesgram.releases.release import Release

    public = public_options.public
    format_ = _format_of(output) if stated_format is None else stated_format
    _check_consumer_options(format_, output, min_count=min_count, locale=locale)
    contents = _folder_contents(format_, locale or DEFAULT_LOCALE)
    inputs = [release, *(path for path in (public, vocab) if path is not None)]
    check_writable(output, force=force, contents=contents, inputs=inputs)
    public_arguments = public_options.arguments
    _check_model_options(
        format_,
        public=public,
        prune=prune,
        case_from=case_from,
        quantize=quantize,
        max_size=max_size,
    )
    blocklist = block_options.blocklist
    if vocab is not None or format_ is Format.BIAS:
        _export_bias(
            release,
            vocab,
            output,
            format_,
            source,
            prune,
            blocklist,
            force=force,
            json=json,
            verbose=verbose,
        )
        return
    max_bytes = options.parse_file_size("--max-size", max_size) if max_size else None

    def read_casing(tokenizer: str) -> dict[str, str]:
        return _read_casing(tokenizer, case_from, text_column=text_column, **dialect.arguments)

    if is_public_model(release):
        if public is not None or prune is not None or max_bytes is not None:
            _check_public_format(format_)
            raise UsageError(
                "--public, --prune and --max-size: a public model is made smaller by"
                " `vocab --model-size`; leave them out."
            )
        _export_public(
            release,
            source,
            output,
            format_,
            read_casing,
            blocklist,
            bits=quantize,
            force=force,
            json=json,
            verbose=verbose,
        )
        return
    if source is not None:
        raise UsageError(f"--source {source}: {release} is no public model; leave it out.")
    loaded = Release.load(release)
    report: dict[str, Any] = {
        "output": str(output),
        "format": str(format_),
        "claim": loaded.card.claim,
        **({"rows": True} if loaded.card.is_of_rows else {}),
    }
    if format_ not in MODEL_FORMATS:
        casing = read_casing(loaded.card.vocabulary["tokenizer"])
        with console.step("Writing"):
            if format_ in CONSUMER_FORMATS:
                report |= _write_for_consumer(
                    loaded,
                    output,
                    format_,
                    casing,
                    locale=locale or DEFAULT_LOCALE,
                    min_count=min_count,
                    block=blocklist,
                    force=force,
                )
            else:
                report["ngrams"] = _write_table(
                    loaded, output, format_, blocklist, min_count, force=force
                )
        report["label"] = loaded.card.guarantee.name
        ingredients = loaded.provenance(release.name).ingredients
        _print_export(report, output, ingredients, json=json, verbose=verbose)
        return
    casing = read_casing(loaded.card.vocabulary["tokenizer"])
    label = "Building the model" if max_bytes is None else "Building models until one fits"
    with console.progress(label) as show_progress:
        parts = ReleaseModel.from_folder(release, **public_arguments, release=loaded)
        build = parts.builder
        model = _build_to_fit(
            lambda most: _with_casing(
                build(prune if most is None else most).block(blocklist), casing
            ),
            quantize,
            max_bytes,
            show_progress,
        )
    with console.step("Writing"):
        _write_model(model, output, format_, force=force)
    if case_from:
        report["cased_words"] = len(model.casing)
    report |= _model_report(model, format_)
    sources = model.about.get("public_model", [])
    report["public_model"] = sources if json else ", ".join(sources) or "none"
    report["label"] = model.label
    if json:
        report["rough"] = parts.roughness
    _print_export(report, output, model.ingredients, json=json, verbose=verbose)
    _print_roughness(parts)


def _format_of(output: Path) -> Format:
    """Return the format that the ending of a path says; a model folder without an ending.

    >>> [_format_of(Path(name)).value for name in ("m.arpa.gz", "top.tsv", "model")]
    ['arpa', 'tsv', 'model']
    """
    name = output.name.lower()
    if name.endswith(ARPA_SUFFIXES):
        return Format.ARPA
    tables = {".tsv": Format.TSV, ".jsonl": Format.JSONL, ".parquet": Format.PARQUET}
    tables[".combined"] = Format.AOSP
    return tables.get(output.suffix.lower(), Format.MODEL)


def _folder_contents(format_: Format, locale: str) -> tuple[str, ...] | None:
    """Return the names of all files of an output folder; None where the output is a file."""
    from bayesgram.lm.consumers import HUB_CONTENTS, hunspell_contents
    from bayesgram.lm.files import CONTENTS

    if format_ is Format.HUNSPELL:
        return hunspell_contents(locale)
    return {Format.MODEL: CONTENTS, Format.HUB: HUB_CONTENTS}.get(format_)


def _check_consumer_options(
    format_: Format, output: Path, *, min_count: int | None, locale: str | None
) -> None:
    """Refuse options and endings that don't belong to a format."""
    from bayesgram.lm.consumers import check_locale

    if min_count is not None and (format_ in MODEL_FORMATS or format_ is Format.BIAS):
        raise UsageError(f"--min-count is not for --format {format_}; leave it out.")
    if min_count is not None and min_count < 0:
        raise UsageError(f"--min-count {min_count}: must be 0 or more.")
    if locale is not None and format_ not in {Format.AOSP, Format.HUNSPELL, Format.HUB}:
        raise UsageError(
            f"--locale is for aosp, hunspell and hub, not for --format {format_}; leave it out."
        )
    if locale is not None:
        check_locale(locale)
    if format_ is Format.SUGGEST and output.suffix.lower() not in SUGGEST_SUFFIXES:
        raise UsageError(
            f"{output}: --format suggest needs an ending: .tsv or .txt for Lucene, .jsonl for"
            " Elasticsearch and OpenSearch."
        )


def _write_for_consumer(
    release: "Release",
    output: Path,
    format_: Format,
    casing: dict[str, str],
    *,
    locale: str,
    **settings: Any,  # noqa: ANN401 - min_count, block and force, which all formats have
) -> dict[str, Any]:
    """Write a release for a keyboard, a search box, a spell checker or a hub."""
    from bayesgram.lm import consumers

    if format_ is Format.AOSP:
        written = consumers.write_aosp(release, output, locale=locale, casing=casing, **settings)
    elif format_ is Format.HUNSPELL:
        written = consumers.write_hunspell(
            release, output, locale=locale, casing=casing, **settings
        )
    elif format_ is Format.HUB:
        written = consumers.write_hub(release, output, locale=locale, **settings)
    else:
        is_json = output.suffix.lower() == ".jsonl"
        program = (
            consumers.SuggestFormat.ELASTICSEARCH if is_json else consumers.SuggestFormat.LUCENE
        )
        written = consumers.write_suggest(release, output, for_program=program, **settings)
    return {"ngrams": written.ngrams, "unwritable": written.unwritable}


def _print_roughness(parts: "ReleaseModel") -> None:
    """Say that a model is rough, why, and how to get a good one; nothing of a good one."""
    if parts.roughness:
        console.print_note(f"note: this is a rough model. {' '.join(parts.roughness)}")


def _check_model_options(
    format_: Format,
    *,
    public: Path | None,
    prune: int | None,
    case_from: str | None,
    quantize: int | None,
    max_size: str | None,
) -> None:
    """Refuse options of models with other formats, and those that contradict each other."""
    is_model = format_ in MODEL_FORMATS
    if not is_model and (public or (prune is not None and format_ is not Format.BIAS)):
        raise UsageError(
            f"--public and --prune are for models, not for --format {format_}; leave them out."
        )
    if case_from and format_ not in CASED_FORMATS:
        raise UsageError(
            f"--case-from is for model, aosp and hunspell, not for --format {format_}; leave it"
            " out."
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
    blocklist: "Blocklist",
    *,
    force: bool,
    json: bool,
    verbose: bool,
) -> None:
    """Export the log-ratios of words to public text; `most` is how many words, at most."""
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
            f"--source {source}: is for public models, and --format bias is of a release; leave it"
            " out."
        )
    release = Release.load(path)
    vocabulary = named_inputs.load_vocabulary_of(vocab, [(str(path), release)])
    lifts = WordLifts.from_release(release, vocabulary)
    with console.step("Writing"):
        word_count = write_bias(lifts, output, max_words=most, block=blocklist, force=force)
    report = {
        "output": str(output),
        "format": str(format_),
        "claim": release.card.claim,
        "words": word_count,
        "label": release.card.guarantee.name,
    }
    ingredients = release.provenance(path.name).ingredients
    _print_export(report, output, ingredients, json=json, verbose=verbose)


def _export_public(
    path: Path,
    source: str | None,
    output: Path,
    format_: Format,
    read_casing: Callable[[str], dict[str, str]],
    blocklist: "Blocklist",
    *,
    bits: int | None,
    force: bool,
    json: bool,
    verbose: bool,
) -> None:
    """Export the model of one public source."""
    from bayesgram.public.public_model import PublicModel

    _check_public_format(format_)
    public_model = PublicModel.load(path)
    names = public_model.source_names
    if source is None and len(names) > 1:
        raise UsageError(f"{path}: has the sources {', '.join(names)}; name one with --source.")
    name = names[0] if source is None else source
    model = public_model[name].block(blocklist)
    model = _with_casing(model, read_casing(public_model.tokenizer.name))
    if bits is not None:
        model = model.quantise(bits)
    with console.step("Writing"):
        _write_model(model, output, format_, force=force)
    report: dict[str, Any] = {"output": str(output), "format": str(format_), "source": name}
    report |= _model_report(model, format_)
    if model.ingredients:
        report["label"] = model.label
    _print_export(report, output, model.ingredients, json=json, verbose=verbose)


def _check_public_format(format_: Format) -> None:
    if format_ not in MODEL_FORMATS:
        raise UsageError(
            f"--format {format_}: a public model is a language model; choose arpa or model."
        )


def _build_to_fit(
    build: "Callable[[int | None], LanguageModel]",
    bits: int | None,
    max_bytes: int | None,
    show_progress: Callable[[float], None],
) -> "LanguageModel":
    """Build a model, quantised and pruned as the options ask for.

    Args:
        build: Returns the model with at most so many n-grams; all of them for None.
        bits: How many bits a probability is rounded to; None for none, or 8 with `max_bytes`.
        max_bytes: How large the model folder may be.
        show_progress: Is called with the share of the models that are built, if there are several.
    """
    from bayesgram.lm.language_model import MAX_ATTEMPTS, fit_to_size
    from bayesgram.lm.quantisation import DEFAULT_BITS

    if max_bytes is not None:
        built_count = 0

        def build_and_count(most: int | None) -> "LanguageModel":
            nonlocal built_count
            model = build(most)
            built_count += 1
            # The model of everything, the smallest one, and as many as it takes.
            show_progress(built_count / (MAX_ATTEMPTS + 2))
            return model

        return fit_to_size(build_and_count, max_bytes, bits=DEFAULT_BITS if bits is None else bits)
    model = build(None)
    return model if bits is None else model.quantise(bits)


def _read_casing(
    tokenizer: str,
    source: str | None,
    **columns: Any,  # noqa: ANN401 - those of read_records
) -> dict[str, str]:
    """Return how public text, if some is given, writes words that are not in lower case."""
    from bayesgram.lm.language_model import CaseCounter
    from bayesgram.text.tokenizer import Tokenizer

    if not source:
        return {}
    counter = CaseCounter(Tokenizer.from_name(tokenizer))
    with console.reading("Reading text", then="Casing words") as bar:
        records = bar.records([source], user_column=None, **columns)
        for batch in records:
            counter.add(batch.text)
    return counter.casing()


def _with_casing(model: "LanguageModel", casing: dict[str, str]) -> "LanguageModel":
    """Return the model with how its words are written."""
    if not casing:
        return model
    words = [word.decode() for word in model.trie.words.to_list()]
    return replace(model, casing={word: casing[word] for word in words if word in casing})


def _write_model(model: "LanguageModel", output: Path, format_: Format, *, force: bool) -> None:
    from bayesgram.lm.arpa import write_arpa

    if format_ is Format.MODEL:
        model.save(output, force=force)
    else:
        write_arpa(model, output, force=force)


def _write_table(
    release: "Release",
    output: Path,
    format_: Format,
    blocklist: "Blocklist",
    min_count: int | None,
    *,
    force: bool,
) -> int:
    """Write the n-grams of a release as a table, and return how many there are."""
    from bayesgram.lm.export import release_table, write_jsonl, write_parquet, write_tsv

    writers = {
        Format.TSV: write_tsv,
        Format.JSONL: write_jsonl,
        Format.PARQUET: write_parquet,
    }
    writers[format_](release, output, block=blocklist, min_count=min_count, force=force)
    return len(release_table(release, blocklist, min_count))


def _model_report(model: "LanguageModel", format_: Format) -> dict[str, Any]:
    report: dict[str, Any] = {"order": model.order, "ngrams": model.sizes}
    if format_ is Format.MODEL:
        report["bytes"] = model.size_on_disk
    return report


def _print_export(
    report: dict[str, Any],
    output: Path,
    ingredients: "Iterable[Ingredient]",
    *,
    json: bool,
    verbose: bool,
) -> None:
    console.print_summary(_export_sentences(report), report, json=json, verbose=verbose)
    console.warn_unless_proved(output, ingredients)


# What a format holds: a number of n-grams or rows.
_CONTENTS = {
    **dict.fromkeys((Format.TSV, Format.JSONL, Format.PARQUET), "{} {} with their probabilities"),
    Format.AOSP: "{} words and bigrams with their frequencies",
    Format.SUGGEST: "{} suggestions with their weights",
    Format.HUNSPELL: "{} words for a spell checker",
    Format.HUB: "a dataset of {} {}",
}


def _export_sentences(report: "Mapping[str, Any]") -> list[str]:
    """Say what was written, and what it promises."""
    if "words" in report:
        content = f"{report['words']:,} words with their log-ratios to public text"
    elif isinstance(report["ngrams"], int):
        content = _CONTENTS[report["format"]].format(
            f"{report['ngrams']:,}", "rows" if report.get("rows") else "n-grams"
        )
    else:
        content = f"a language model of {_format_sizes(report['ngrams'])}"
    if "source" in report:
        content += f", from the public source {report['source']!r}"
    if "bytes" in report:
        content += f", {console.format_bytes(report['bytes'])}"
    sentences = [f"Wrote {report['output']}: {content}."]
    if report.get("unwritable"):
        sentences.append(f"Left out {report['unwritable']:,} that the format can't hold.")
    if "weights" in report:
        sentences.append(f"Weights: {report['weights']}.")
    if "claim" in report:
        sentences.append(
            f"Privacy: {report['claim']}, as the release. The export costs no privacy."
        )
        if report["label"] not in report["claim"]:
            sentences.append(
                f"Because of what else it was made from, its label is {report['label']}."
            )
    return sentences


def _format_sizes(sizes: "Sequence[int]") -> str:
    """Return how many n-grams of each order a model has.

    >>> _format_sizes([2002, 22113])
    '2,002 words and 22,113 bigrams'
    """
    from bayesgram.releases.card_sections import order_name

    return console.join_words([f"{size:,} {order_name(n)}" for n, size in enumerate(sizes, 1)])


# --- import ---


def import_arpa(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="An ARPA file, also .gz.", show_default=False)
    ],
    output: options.Output,
    tokenizer_options: options.TokenizerOptions = options.DEFAULTS,
    force: options.Force = False,
    json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Check an ARPA file and keep it as a model folder, which loads faster.

    An ARPA file does not say how its text was cut into tokens. If not into lower-case words, say so
    with --tokenizer and --keep-case.

    Example: bayesgram import model.arpa.gz -o model
    """
    from bayesgram.io.atomic import check_writable
    from bayesgram.lm.arpa import read_arpa
    from bayesgram.lm.files import CONTENTS

    check_writable(output, force=force, contents=CONTENTS, inputs=[file])
    with console.step("Reading"):
        model = read_arpa(file, tokenizer=tokenizer_options.tokenizer)
    model.save(output, force=force)
    report: dict[str, Any] = {
        "output": str(output),
        "order": model.order,
        "ngrams": model.sizes,
        "tokenizer": model.tokenizer.name,
    }
    sentences = [
        *_export_sentences(report),
        f"Text for it is cut by the tokenizer {model.tokenizer.name!r}.",
    ]
    console.print_summary(sentences, report, json=json, verbose=verbose)


# --- predict ---


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
            metavar="TEXT",
            help="What stands before the next word. Put several words in quotes.",
            show_default=False,
        ),
    ],
    k: Annotated[int, typer.Option("--k", "-k", parser=parse_int, help="How many words.")] = 5,
    typed: Annotated[str, typer.Option(help="How the next word begins.", show_default=False)] = "",
    cache: Annotated[
        float,
        typer.Option(
            parser=parse_float,
            help="How much the words of TEXT itself count, from 0: 0.15 is a good share.",
        ),
    ] = 0.0,
    capitals: Annotated[
        bool,
        typer.Option(
            "--capitals", help="Write lower-case words as the sentence and --typed ask for."
        ),
    ] = False,
    public_options: options.PublicModelOptions = options.FIND_PUBLIC,
    block_options: options.BlockOptions = options.DEFAULT_BLOCK,
    tokenizer: options.TokenizerName = None,
    json: options.Json = False,
) -> None:
    """Show the likeliest next words.

    A release is made into a model first, which starts from the public model of its vocabulary.
    `export --format model` saves that model.

    Example: bayesgram predict out "thank you"
    """
    from time import perf_counter

    from bayesgram.lm.files import MODEL_JSON
    from bayesgram.lm.language_model import LanguageModel
    from bayesgram.public.release_model import ReleaseModel
    from bayesgram.releases import CARD_FILE

    start = perf_counter()
    blocklist = block_options.blocklist
    stated_tokenizer = None if tokenizer is None else options.load_tokenizer(tokenizer)
    public_arguments = public_options.arguments
    parts = None
    if (model / CARD_FILE).is_file():
        with console.step("Building the model"):
            parts = ReleaseModel.from_folder(model, **public_arguments)
            opened = parts.builder(None)
        opened = replace(opened, tokenizer=opened.tokenizer.with_definition_of(stated_tokenizer))
    elif public_options.is_given:
        raise UsageError(
            f"--public and --no-public: are for a release, and {model} is none; leave them out."
        )
    else:
        opened = LanguageModel.open(model, tokenizer=stated_tokenizer)
    if not (model / MODEL_JSON).is_file():
        command = f"export {model} --format model" if model.is_dir() else f"import {model}"
        console.print_note(
            f"Built in {perf_counter() - start:.1f} s; a model folder is there at once: bayesgram"
            f" {command} -o model"
        )
    predictions = opened.predict(
        text, k, typed=typed, cache=cache, capitals=capitals, block=blocklist
    )
    if json:
        document: dict[str, Any] = {
            "text": text,
            "predictions": [prediction._asdict() for prediction in predictions],
        }
        if parts is not None:
            document |= {
                "public_model": opened.about.get("public_model", []),
                "rough": parts.roughness,
            }
        console.print_json(document)
        return
    if parts is not None:
        _print_roughness(parts)
    unknown_words = _find_unknown_words(opened, text)
    if unknown_words:
        console.print_note(f"note: the model does not know: {', '.join(unknown_words)}.")
    rows = [(prediction.word, f"{prediction.probability:.1%}") for prediction in predictions]
    columns = ("word", "probability")
    console.print_table(f"After {text!r}", columns, rows, right=columns[1:])


def _find_unknown_words(model: "LanguageModel", text: str) -> list[str]:
    """Return the words that the model lacks, of the last words that it predicts from."""
    last_sentence = model.tokenizer.split_finished(text)[-1]
    context = last_sentence[-(model.order - 1) :]
    return [word for word in context if model.trie.words.find_one(word.encode()) < 0]


# --- interpolate ---


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
        str | None,
        typer.Option(
            help="The weight of each model, separated by commas, such as 0.6,0.4.",
            show_default="equal",
        ),
    ] = None,
    tune: Annotated[
        str | None,
        typer.Option(
            help="Public text to choose the weights by: a file, folder or quoted pattern.",
            show_default=False,
        ),
    ] = None,
    tokenizer_options: options.TokenizerOptions = options.DEFAULTS,
    text_column: options.TextColumn = "text",
    dialect: options.DialectOptions = options.READ_AS_USUAL,
    skip_bad_rows: options.SkipBadRows = False,
    force: options.Force = False,
    json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Mix language models into one: its probabilities are weighted means of theirs.

    It costs no extra privacy. Models about the same people cost what all of them cost together.

    An ARPA file does not say how its text was cut into tokens. It is taken to be cut as for the
    other models, or as --tokenizer and --keep-case say. Never tune by private text: the weights
    would reveal something about it.

    Example: bayesgram interpolate model.arpa out --tune public-held-out.txt -o mixed.arpa
    """
    from bayesgram.io.atomic import check_writable
    from bayesgram.lm import interpolation
    from bayesgram.lm.files import CONTENTS

    for model in models:
        if models.count(model) > 1:
            raise UsageError(f"{model}: is given twice; give each once.")
    format_ = Format.ARPA if output.name.lower().endswith(ARPA_SUFFIXES) else Format.MODEL
    contents = CONTENTS if format_ is Format.MODEL else None
    check_writable(output, force=force, contents=contents, inputs=[*models])
    if weights is not None and tune is not None:
        raise UsageError("--weights and --tune: give one of them; --tune finds the weights.")
    given_weights = None
    if weights is not None:
        given_weights = parse_list("--weights", weights, parse_float, "0.6,0.4")
    mixture_weights = interpolation.normalise_weights(given_weights, len(models))
    with console.step("Reading models"):
        opened = _open_models(models, tokenizer_options.tokenizer_if_given)
    if tune is not None:
        mixture_weights = _tune_weights(
            opened,
            tune,
            text_column=text_column,
            skip_bad_rows=skip_bad_rows,
            **dialect.arguments,
        )
    with console.step("Mixing"):
        mixed = interpolation.interpolate(opened, mixture_weights)
        for part, path in zip(mixed.about["interpolated"], models, strict=True):
            part["model"] = path.name
    with console.step("Writing"):
        _write_model(mixed, output, format_, force=force)
    weight_of_model = dict(zip(map(str, models), mixture_weights.tolist(), strict=True))
    weights_text = ", ".join(f"{name} {weight:.4f}" for name, weight in weight_of_model.items())
    report: dict[str, Any] = {
        "output": str(output),
        "order": mixed.order,
        "ngrams": mixed.sizes,
        "weights": weight_of_model if json else weights_text,
    }
    if mixed.ingredients:
        report["label"] = mixed.label
    _print_export(report, output, mixed.ingredients, json=json, verbose=verbose)


def _open_models(paths: list[Path], stated_tokenizer: "Tokenizer | None") -> "list[LanguageModel]":
    """Open models; text for an ARPA file is cut as stated, or as for the first model that says how.

    Args:
        paths: Release folders, model folders and ARPA files.
        stated_tokenizer: The one that the options name, if they do.
    """
    from bayesgram.lm.language_model import LanguageModel

    models = {
        path: LanguageModel.open(path, tokenizer=stated_tokenizer)
        for path in paths
        if path.is_dir()
    }
    tokenizer = stated_tokenizer or next((model.tokenizer for model in models.values()), None)
    for path in paths:
        if path not in models:
            models[path] = LanguageModel.open(path, tokenizer=tokenizer)
    return [models[path] for path in paths]


def _tune_weights(
    models: "list[LanguageModel]",
    source: str,
    **columns: Any,  # noqa: ANN401 - those of read_records
) -> "Floats":
    """Return the weights under which public text is the likeliest."""
    from bayesgram.lm.interpolation import fit_mixture_weights

    with console.reading("Reading text", then="Tuning") as bar:
        records = bar.records([source], user_column=None, **columns)
        return fit_mixture_weights(models, (batch.text for batch in records))
