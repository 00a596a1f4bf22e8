"""bayesgram evaluate: releases and language models against private counts and text.

`--against` gives the KL divergence from private counts to each release, `--private-text` how well
it covers and ranks what people write, and `--text` judges language models by text that they have
not seen.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayesgram.cli import console, named_inputs, options, plots
from bayesgram.errors import UsageError

if TYPE_CHECKING:
    from bayesgram.audit.evaluate import Candidate, Evaluation
    from bayesgram.audit.ngram_evaluation import ReleaseEvaluation
    from bayesgram.audit.text_evaluation import EvaluatedModel, Rows, SubsetQuality, TextQuality
    from bayesgram.private.counts import PrivateCounts, SegmentedCounts
    from bayesgram.public.vocabulary import Vocabulary

TOP_DEFINITIONS = (
    "top: n-grams that people write most, every occurrence counted. listed: how many of them the"
    " vocabulary has. found: of as many listed n-grams that people write most, the share that is"
    " among as many that the release, or public text alone, ranks first."
)


def evaluate(
    releases: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL...",
            help="Release folders; with --text also model folders and ARPA files; NAME=PATH gives"
            " one a name.",
            show_default=False,
        ),
    ],
    against: Annotated[
        Path | None, typer.Option(help="Private counts to compare with.", show_default=False)
    ] = None,
    private_text: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TEXT",
            help="The private text of the releases: a file, folder or quoted pattern. May be"
            " repeated.",
            show_default=False,
        ),
    ] = None,
    text: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TEXT",
            help="Held-out text: a file, folder or quoted pattern. Give several as NAME=PATH each.",
            show_default=False,
        ),
    ] = None,
    vocab: Annotated[
        Path | None,
        typer.Option(
            help="The vocabulary of the releases: adds public text alone to compare with.",
            show_default=False,
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw what --text finds over ε, as a .svg or .png.", show_default=False),
    ] = None,
    public_options: options.PublicModelOptions = options.FIND_PUBLIC,
    tokenizer: options.TokenizerName = None,
    text_column: options.TextColumn = "text",
    dialect: options.DialectOptions = options.READ_AS_USUAL,
    skip_bad_rows: options.SkipBadRows = False,
    force: options.Force = False,
    json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Measure how good releases and language models are. Don't publish the result.

    The numbers are exact and computed from private data: they are for the keeper of the data only.

    --against takes private counts. It shows the error of the longest n-grams as a KL divergence,
    lower is better. With --vocab it also shows how much of public text's error each release
    removes, beside what its card estimates.

    --private-text takes the text that the counts were made of. It also shows how much of it the
    vocabulary covers, and how many of the n-grams that people write most the release finds.

    --text takes held-out text, and judges releases and models as language models: perplexity, how
    often the right word is the first suggestion or one of three, and keystrokes saved. The model of
    a release starts from the public model of its vocabulary, as for `predict`. --verbose adds
    tables by how frequent words are.

    --plot draws one line for models of one name, or whose names differ by their ε alone.

    --tokenizer is needed only for ARPA files and for models cut by a tokenizer.json.

    Example: bayesgram evaluate out-0.2 out-1 public.arpa --text posts=a.parquet --text
    reviews=b.txt --plot over-e.svg
    """
    from bayesgram.audit.evaluate import Candidate, evaluate_candidates
    from bayesgram.audit.evaluation import DISCLOSURE
    from bayesgram.public.release_model import PublicModels
    from bayesgram.public.vocabulary import Vocabulary

    if against is None and not text and not private_text:
        raise UsageError(
            "nothing to judge by: give --against with private counts, --private-text with the text"
            " of the releases, or --text with held-out text."
        )
    if public_options.is_given and not text:
        raise UsageError(
            "--public and --no-public are for language models, which --text judges; give --text"
            " too, or leave them out."
        )
    names = named_inputs.model_names(releases)
    if plot is not None:
        _check_plot(plot, text, list(names), force=force)
    stated_tokenizer = None if tokenizer is None else options.load_tokenizer(tokenizer)
    # Without --text no language model is made.
    publics = PublicModels(**public_options.arguments) if text else PublicModels(use_public=False)
    candidates = [
        Candidate.from_model(
            name, Path(path), publics, tokenizer=stated_tokenizer, is_release=not text, title=path
        )
        for path, name in names.items()
    ]
    judged_releases = [
        (candidate, candidate.release) for candidate in candidates if candidate.release is not None
    ]
    publics.check_named([(candidate.title, release) for candidate, release in judged_releases])
    vocabulary = Vocabulary.load(vocab) if vocab else None
    counts = None if against is None else _open_counts(against, candidates, vocabulary)
    columns: dict[str, Any] = {
        "text_column": text_column,
        "skip_bad_rows": skip_bad_rows,
        **dialect.arguments,
    }
    evaluation = evaluate_candidates(
        candidates,
        counts=counts,
        read_private_text=partial(_read_text, private_text, **columns) if private_text else None,
        read_texts=partial(_read_texts, text, **columns) if text else None,
        vocabulary=vocabulary,
        tokenizer=stated_tokenizer,
        show_progress=console.progress,
    )
    if json:
        console.print_json(evaluation.to_json())
    else:
        _print_results(evaluation, verbose=verbose)
    if text:
        named_inputs.print_public_models(
            [(candidate.name, candidate.public) for candidate, _ in judged_releases]
        )
    if plot is not None:
        from bayesgram.audit.quality_chart import draw_quality_over_epsilon

        results = evaluation.models
        same_words = evaluation.same_words
        plots.save_plot(
            lambda: draw_quality_over_epsilon(results, same_words=same_words), plot, force=force
        )
    if not json:
        console.print_note(f"These numbers are {DISCLOSURE}.", urgent=True)


def _print_results(evaluation: "Evaluation", *, verbose: bool) -> None:
    """Print tables and sentences: by counts, by the private text, and by held-out text.

    Args:
        evaluation: What was found.
        verbose: Whether to print tables by how frequent words are.
    """
    if evaluation.divergences:
        title = "Error against the private counts (KL divergence in nats; 0 is perfect)"
        print_divergences(title, [vars(score) for score in evaluation.longest_divergences])
    _print_release_evaluations(evaluation.quality)
    if evaluation.models:
        _print_text_evaluation(evaluation, verbose=verbose)


def _check_plot(plot: Path, text: list[str] | None, models: list[str], *, force: bool) -> None:
    if not text:
        raise UsageError(
            "--plot shows how models do on text; give --text too, or leave --plot out."
        )
    texts = [named_inputs.split_name(argument, "text")[1] for argument in text]
    plots.check_plot(plot, force=force, inputs=[*models, *texts])


def _read_text(
    paths: Sequence[str],
    **columns: Any,  # noqa: ANN401 - those of read_records
) -> "Rows":
    """Read the rows of the private text."""
    with console.reading("Reading private text", then="Counting n-grams") as bar:
        reader = bar.records(list(paths), user_column=None, **columns)
        return [batch.text for batch in reader]


def _read_texts(
    arguments: Sequence[str],
    **columns: Any,  # noqa: ANN401 - those of read_records
) -> "dict[str, Rows]":
    """Read the rows of each text, by its name; the name is "" where none is given."""
    named_paths = named_inputs.paths_by_name(arguments, "text")
    with console.reading("Reading text", then="Scoring text") as bar:
        readers = {
            name: bar.records(paths, user_column=None, **columns)
            for name, paths in named_paths.items()
        }
        return {name: [batch.text for batch in reader] for name, reader in readers.items()}


# --- Against private counts ---


def _open_counts(
    path: Path, candidates: "Sequence[Candidate]", vocabulary: "Vocabulary | None"
) -> "PrivateCounts | SegmentedCounts":
    """Open the private counts of the one vocabulary that all releases have."""
    from bayesgram.private.counts_on_disk import open_any_counts

    sizes = {
        len(candidate.release.ngrams) for candidate in candidates if candidate.release is not None
    }
    if not sizes and vocabulary:
        sizes = {len(vocabulary)}
    if not sizes:
        raise UsageError("--against needs a release folder or --vocab, to know what was counted.")
    if len(sizes) > 1:
        raise UsageError(
            "the releases have vocabularies of different sizes; evaluate those of one vocabulary"
            " together."
        )
    with console.step("Reading counts"):
        return open_any_counts(path, vocabulary_size=sizes.pop())


def print_divergences(
    title: str, rows: list[dict[str, Any]], *, with_mechanism: bool = True
) -> None:
    """Print the KL of releases as a table; infinite where a release rules out what people wrote.

    Args:
        title: Stands above the table.
        rows: One for each release, made by `comparison_row`.
        with_mechanism: Whether there is a column for the mechanism.
    """
    cells = [
        (
            row["release"],
            *([row["mechanism"]] if with_mechanism else []),
            console.format_number(row["epsilon"]),
            console.format_number(row["delta"]),
            format_guarantee(row),
            "∞" if row["kl"] is None else f"{row['kl']:.4f}",
        )
        for row in rows
    ]
    columns = ("release", *(["mechanism"] if with_mechanism else []), "ε", "δ", "guarantee", "KL")
    console.print_table(title, columns, cells, right=("ε", "δ", "KL"))


def format_guarantee(row: dict[str, Any]) -> str:
    """Return the label of a release, with its grade and unit where these say that it protects less.

    The grade is there if ε or δ protects little; the unit, if it is less than all that a user
    wrote.
    """
    label = row["guarantee"] if row["grade"] is None else f"{row['guarantee']}, {row['grade']}"
    return f"{label} for {row['unit']}" if row.get("unit") else label


# --- Coverage, error removed and top n-grams ---


def _print_release_evaluations(evaluations: "Sequence[ReleaseEvaluation]") -> None:
    """Print coverage and error removed as sentences, and top n-grams as a table for each order."""
    for evaluation in evaluations:
        for sentence in _describe_evaluation(evaluation):
            console.write_wrapped(sentence)
    orders = sorted({evaluation.order for evaluation in evaluations if evaluation.top})
    for order in orders:
        _print_top([each for each in evaluations if each.order == order and each.top], order)
    if orders:
        console.print_note(TOP_DEFINITIONS)


def _describe_evaluation(evaluation: "ReleaseEvaluation") -> list[str]:
    """Say the exact coverage and error removed, each with what the card estimates."""
    from bayesgram.releases.card_sections import order_name
    from bayesgram.releases.quality import format_percent

    ngrams = order_name(evaluation.order, is_rows=evaluation.is_rows)
    sentences = []
    if evaluation.coverage is not None:
        covered = (
            f"the vocabulary covers {format_percent(evaluation.coverage)} of people's {ngrams}"
        )
        estimate = evaluation.coverage_estimate
        if estimate is not None:
            estimated = f"the card estimates {estimate.percent_text}"
            covered += f" ({'noise hides it' if estimate.is_hidden else estimated})"
        sentences.append(f"{evaluation.release}: {covered}.")
    removed = evaluation.error_removed
    if removed is None:
        return sentences
    if removed == -float("inf"):
        learnt = f"rules out {ngrams} that people write, which public text does not"
    elif removed < 0:
        learnt = f"adds {format_percent(-removed)} to public text's error on listed {ngrams}"
    else:
        learnt = f"removes {format_percent(removed)} of public text's error on listed {ngrams}"
    if evaluation.error_removed_estimate is not None:
        learnt += f" (the card estimates {format_percent(evaluation.error_removed_estimate)})"
    return [*sentences, f"{evaluation.release}: {learnt}."]


def _print_top(evaluations: "Sequence[ReleaseEvaluation]", order: int) -> None:
    from bayesgram.releases.card_sections import order_name

    rows = [
        (
            evaluation.release,
            f"{top.size:,}",
            f"{top.listed:,.0f}",
            _format_share(top.release_share),
            _format_share(top.public_share),
        )
        for evaluation in evaluations
        for top in evaluation.top
    ]
    columns = ("release", "top", "listed", "found by release", "by public text")
    ngrams = order_name(order, is_rows=any(each.is_rows for each in evaluations))
    title = f"The {ngrams} that people write most"
    console.print_table(title, columns, rows, right=columns[1:])


def _format_share(share: float | None) -> str:
    return "–" if share is None else f"{share:.0%}"


# --- Tables of held-out text ---

UNKNOWN_WORDS = "unknown"  # the band of words that a model lacks
QUALITY_COLUMNS = ("perplexity", "unknown", "top 1", "top 3", "keys saved")
TITLES_BY_FREQUENCY = {
    "perplexity": "Perplexity",
    "accuracy_1": "First suggestion",
    "keystrokes_saved": "Keys saved",
}
DEFINITIONS = (
    "perplexity: how many words the model hesitates between on average; lower is better. unknown:"
    " the share of words that the model lacks. top 1, top 3: the share of words that were the first"
    " suggestion, or one of three. keys saved: the share of keystrokes that a person saves who"
    " picks one of three suggestions as soon as it is right."
)
DIFFERENT_WORDS = (
    "warning: these models don't know the same words, so that their perplexities don't compare: one"
    " that knows fewer has less to guess. Compare suggestions and keys saved, which count unknown"
    " words as wrong."
)


def _print_text_evaluation(evaluation: "Evaluation", *, verbose: bool) -> None:
    """Print tables: of all words, of each text, and if verbose by how frequent the words are."""
    results = evaluation.models
    _print_quality("Held-out text", results, [result.quality for result in results])
    texts = results[0].quality.by_text
    if len(texts) > 1:
        for index, text in enumerate(texts):
            qualities = [result.quality.by_text[index] for result in results]
            _print_quality(f"Of it, {text.name}", results, qualities)
    for measure, title in TITLES_BY_FREQUENCY.items() if verbose else ():
        _print_by_frequency(
            f"{title}, by how frequent the word is: at least 1 in …", results, measure
        )
    console.print_note(DEFINITIONS)
    if not evaluation.same_words:
        console.print_note(DIFFERENT_WORDS)


def _print_quality(
    title: str,
    results: "Sequence[EvaluatedModel]",
    qualities: "Sequence[SubsetQuality | TextQuality]",
) -> None:
    """Print a table with a row for each model."""
    rows = [
        (
            result.name,
            console.format_number(result.claim.epsilon),
            _format_measure("perplexity", quality.perplexity),
            f"{quality.out_of_vocabulary:.1%}",
            f"{quality.accuracy_1:.1%}",
            f"{quality.accuracy_3:.1%}",
            f"{quality.keystrokes_saved:.1%}",
        )
        for result, quality in zip(results, qualities, strict=True)
    ]
    columns = ("model", "ε", *QUALITY_COLUMNS)
    console.print_table(title, columns, rows, right=columns[1:])


def _print_by_frequency(title: str, results: "Sequence[EvaluatedModel]", measure: str) -> None:
    """Print a row for each model and a column for each band, without bands that have no value."""
    bands = {band.name: band for result in results for band in result.quality.by_frequency}
    values_of_results = [
        {band.name: getattr(band, measure) for band in result.quality.by_frequency}
        for result in results
    ]
    names = [
        name
        for name in sorted(bands)
        if any(values.get(name) is not None for values in values_of_results)
    ]
    rarest = max(name for name in names if name != UNKNOWN_WORDS)
    headings = {name: _format_frequency(bands[name].least_share) for name in names}
    headings |= {rarest: "rarer", UNKNOWN_WORDS: UNKNOWN_WORDS}
    columns = ("model", "ε", *(headings[name] for name in names))
    rows = [
        (
            result.name,
            console.format_number(result.claim.epsilon),
            *(_format_measure(measure, values.get(name)) for name in names),
        )
        for result, values in zip(results, values_of_results, strict=True)
    ]
    console.print_table(title, columns, rows, right=columns[1:])


def _format_measure(measure: str, value: float | None) -> str:
    if value is None:
        return "–"
    if measure != "perplexity":
        return f"{value:.1%}"
    return f"{value:,.1f}" if value < 1000 else f"{value:,.0f}"


def _format_frequency(share: float | None) -> str:
    """Return two digits of "one in how many".

    >>> _format_frequency(0.0023)
    '430'
    """
    return f"{float(f'{1 / share:.1e}'):,.0f}" if share else UNKNOWN_WORDS
