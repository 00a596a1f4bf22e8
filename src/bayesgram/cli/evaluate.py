"""evaluate --text: language models judged by held-out text, as tables and as a picture over ε.

bayesgram evaluate: releases and language models against private counts and held-out text.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayesgram.cli import console, named_inputs, options
from bayesgram.errors import Argument, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bayesgram.audit.evaluation import EvaluatedModel, Part, Rows, TextQuality
    from bayesgram.charts import Drawing
    from bayesgram.lm.language_model import LanguageModel
    from bayesgram.private.counts import PrivateCounts, SegmentedCounts
    from bayesgram.public.vocabulary import Vocabulary
    from bayesgram.releases.release import Release
    from bayesgram.text.tokenizer import Tokenizer

PICTURES = (".svg", ".png")
PLOT = Argument("plot")  # where a picture is asked for
UNKNOWN = "unknown"  # the band of words that a model lacks
COLUMNS = ("perplexity", "unknown", "top 1", "top 3", "keys saved")
BY_FREQUENCY = {
    "perplexity": "Perplexity",
    "accuracy_1": "First suggestion",
    "keystrokes_saved": "Keys saved",
}
DEFINITIONS = (
    "perplexity: of words and sentence ends, unknown words as one. top 1, top 3: the share of words that were the first"
    " suggestion, or one of three. keys saved: picking one of three as soon as it is right, a keystroke each."
)
OTHER_WORDS = (
    "warning: these models don't know the same words, so that their perplexities don't compare: one that knows fewer"
    " has less to guess. Compare suggestions and keys saved, which count unknown words as wrong."
)


def read(given: Sequence[str], *, text_column: str, skip_bad_rows: bool) -> "dict[str, Rows]":
    """The rows of each text, by name; "" where there is none."""
    named = named_inputs.paths_by_name(given, "text")
    with console.reading("Reading text", then="Scoring text") as bar:
        readers = {
            name: bar.records(
                paths, text_column=text_column, user_column=None, skip_bad_rows=skip_bad_rows
            )
            for name, paths in named.items()
        }
        return {name: [batch.text for batch in reader] for name, reader in readers.items()}


def names(given: Sequence[str]) -> dict[str, str]:
    """What each model is called, by its path: NAME of NAME=PATH, or as little of the path as tells it from others."""
    from bayesgram.releases.segmented import short_names

    found: dict[str, str] = {}
    for one in given:
        name, path = named_inputs.split(one, "model")
        if path in found:
            raise UsageError(f"{one}: is given twice; give each once.")
        found[path] = name
    short = short_names(list(found))
    return {path: name or short[path] for path, name in found.items()}


class Judge:
    """Judges models by one text, one after the other; the first says how frequent words are."""

    def __init__(self, texts: "dict[str, Rows]") -> None:
        self._texts = texts
        self._bands: Any = None
        self._first: LanguageModel | None = None
        self.same_words = True
        self.judged: list[EvaluatedModel] = []

    def open(self, names: Mapping[str, str], cut: "Tokenizer | None") -> None:
        """Judge what is at these paths; `names` are what they are called."""
        from bayesgram.lm.language_model import LanguageModel

        for path in names:
            if not _may_be_model(path):
                LanguageModel.open(path)  # says what is wrong, before all others are judged
        for path, name in names.items():
            with console.progress(f"Predicting with {name}") as move:
                self._judge(name, path, LanguageModel.open(path, tokenizer=cut), move)

    def take(self, models: "Iterable[tuple[str, LanguageModel]]") -> None:
        """Judge models that are no files."""
        for name, model in models:
            with console.progress(f"Predicting with {name}") as move:
                self._judge(name, name, model, move)

    def to_json(self) -> dict[str, Any]:
        """What was found, and whether perplexities compare."""
        return {"text": [each.to_json() for each in self.judged], "same_words": self.same_words}

    def _judge(self, name: str, path: str, model: "LanguageModel", move: Any) -> None:  # noqa: ANN401 - moves a bar
        from bayesgram.audit.evaluation import (
            Claim,
            EvaluatedModel,
            frequencies,
            has_same_words,
            text_quality,
        )

        self._first = self._first or model
        self._bands = self._bands or frequencies(model, self._texts)
        self.same_words = self.same_words and has_same_words(self._first, model)
        quality = text_quality(model, self._texts, bands=self._bands, name=name, on_progress=move)
        self.judged.append(EvaluatedModel(name, path, Claim.of(model.about), quality))


def _may_be_model(path: str) -> bool:
    """Whether there is a file, or a folder with what a release or a model has."""
    from bayesgram.lm.files import ABOUT
    from bayesgram.releases.release import CARD

    return Path(path).is_file() or any((Path(path) / name).is_file() for name in (ABOUT, CARD))


def check_picture(path: Path, *, force: bool, inputs: Sequence[str]) -> None:
    """Refuse what can't be written, before the work."""
    from bayesgram.io.atomic import check_writable

    if path.suffix.lower() not in PICTURES:
        raise UsageError(f"plot={path}: a picture is a .svg or a .png; give a name that ends so.")
    check_writable(path, force=force, inputs=inputs, option=PLOT)


def draw(judged: "Sequence[EvaluatedModel]", path: Path, *, same_words: bool, force: bool) -> None:
    """Write the picture over ε."""
    from bayesgram.audit.evaluation import over_epsilon

    save_picture(lambda: over_epsilon(judged, same_words=same_words), path, force=force)


def save_picture(draw: "Callable[[], Drawing]", path: Path, *, force: bool) -> None:
    """Write a chart as the name of its file says."""
    from bayesgram.io.atomic import write_file_atomically

    kind = path.suffix.lower()[1:]
    with console.step("Drawing"), write_file_atomically(path, force=force, option=PLOT) as target:
        draw().write(target, kind)


def show(judged: "Sequence[EvaluatedModel]", *, same_words: bool) -> None:
    """The tables: all words, each text, and how frequent the words are."""
    rows = [(each.name, _epsilon(each), *_cells(each.quality)) for each in judged]
    console.print_table("Held-out text", ("model", "ε", *COLUMNS), rows, right=("ε", *COLUMNS))
    if len(judged[0].quality.by_text) > 1:
        _show_texts(judged)
    for measure, title in BY_FREQUENCY.items():
        _show_bands(judged, measure, f"{title}, by how frequent the word is: at least 1 in …")
    console.say(DEFINITIONS)
    if not same_words:
        console.say(OTHER_WORDS)


def _show_texts(judged: "Sequence[EvaluatedModel]") -> None:
    """A table for each text."""
    for at, text in enumerate(judged[0].quality.by_text):
        rows = [(each.name, _epsilon(each), *_cells(each.quality.by_text[at])) for each in judged]
        console.print_table(
            f"Of it, {text.name}", ("model", "ε", *COLUMNS), rows, right=("ε", *COLUMNS)
        )


def _epsilon(judged: "EvaluatedModel") -> str:
    return console.number(judged.claim.epsilon)


def _cells(part: "Part | TextQuality") -> tuple[str, ...]:
    shares = (part.out_of_vocabulary, part.accuracy_1, part.accuracy_3, part.keystrokes_saved)
    return _cell("perplexity", part.perplexity), *(f"{share:.1%}" for share in shares)


def _cell(measure: str, value: float | None) -> str:
    if value is None:
        return "–"
    return (
        f"{value:.1%}"
        if measure != "perplexity"
        else f"{value:,.1f}"
        if value < 1000
        else f"{value:,.0f}"
    )


def _show_bands(judged: "Sequence[EvaluatedModel]", measure: str, title: str) -> None:
    """A row a model, a column a band; bands of which nothing is known are left out."""
    bands = {band.name: band for each in judged for band in each.quality.by_frequency}
    values = [
        {band.name: getattr(band, measure) for band in each.quality.by_frequency} for each in judged
    ]
    shown = [name for name in sorted(bands) if any(own.get(name) is not None for own in values)]
    rarest = max(name for name in shown if name != UNKNOWN)
    often = [
        _often(bands[name].least_share) if name not in (rarest, UNKNOWN) else name for name in shown
    ]
    columns = ("model", "ε", *("rarer" if name == rarest else name for name in often))
    rows = [
        (each.name, _epsilon(each), *(_cell(measure, own.get(name)) for name in shown))
        for each, own in zip(judged, values, strict=True)
    ]
    console.print_table(title, columns, rows, right=columns[1:])


def _often(share: float | None) -> str:
    """Two digits of one in how many.

    >>> _often(0.0023)
    '430'
    """
    return f"{float(f'{1 / share:.1e}'):,.0f}" if share else UNKNOWN


PUBLIC_ALONE = "public text alone"
PRIVATE = "private counts (not for publication)"


def evaluate(
    releases: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL...",
            help="Release folders; with --text also model folders and ARPA files; NAME=PATH gives one a name.",
            show_default=False,
        ),
    ],
    against: Annotated[
        Path | None, typer.Option(help="The private counts to judge by.", show_default=False)
    ] = None,
    text: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TEXT",
            help="Held-out text: a file, folder or quoted pattern; several are NAME=PATH each.",
            show_default=False,
        ),
    ] = None,
    vocab: Annotated[
        Path | None,
        typer.Option(help="Adds a row for the public distribution.", show_default=False),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            help="A picture over ε of what --text finds: a .svg or .png.", show_default=False
        ),
    ] = None,
    tokenizer: options.TokenizerOption = None,
    text_column: options.TextColumn = "text",
    skip_bad_rows: options.SkipBadRows = False,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Compare releases with private counts, held-out text or both. For the keeper of the data only.

    --against: KL(p ‖ θ) of the longest n-grams, lower is better.

    --text: as language models: perplexity, words that were the first suggestion or one of three, and keystrokes saved;
    of all texts, of each, and by how frequent words are. With --against also a model of the counts.

    --plot: models of one name, or whose names differ by their ε alone, are one line.

    --tokenizer is needed only for ARPA files and for models cut by a tokenizer.json.

    Example: bayesgram evaluate out-0.2 out-1 public.arpa --text posts=a.parquet --text reviews=b.txt --plot over-e.svg
    """
    from bayesgram.audit.evaluation import DISCLOSURE
    from bayesgram.public.vocabulary import Vocabulary
    from bayesgram.releases.release import CARD, Release

    if against is None and not text:
        raise UsageError(
            "nothing to judge by: give --against with private counts, --text with held-out text, or both."
        )
    judged = names(releases)
    if plot is not None:
        _check_plot(plot, text, [*judged], force=force)
    loaded = {
        path: Release.load(path) for path in judged if not text or (Path(path) / CARD).is_file()
    }
    vocabulary = Vocabulary.load(vocab) if vocab else None
    counts = None if against is None else _counts(against, loaded, vocabulary)
    found: dict[str, Any] = {"warning": DISCLOSURE}
    if counts is not None:
        found["releases"] = _divergences(loaded, counts, vocabulary)
    judge = None
    if text:
        judge = Judge(read(text, text_column=text_column, skip_bad_rows=skip_bad_rows))
        judge.take(_baselines(loaded, counts, vocabulary))
        judge.open(
            judged, None if tokenizer is None else options.tokenizer(tokenizer, keep_case=None)
        )
        found |= judge.to_json()
    if json:
        console.print_json(found)
    else:
        _show(found.get("releases"), judge)
    if judge and plot is not None:
        draw(judge.judged, plot, same_words=judge.same_words, force=force)
    if not json:
        console.say(f"These numbers are {DISCLOSURE}.", urgent=True)


def _show(rows: list[dict[str, Any]] | None, judge: Judge | None) -> None:
    if rows is not None:
        print_rows("KL(p ‖ θ) against private counts", rows)
    if judge:
        show(judge.judged, same_words=judge.same_words)


def _check_plot(plot: Path, text: list[str] | None, models: list[str], *, force: bool) -> None:
    if not text:
        raise UsageError(
            "--plot shows how models do on text; give --text too, or leave --plot out."
        )
    check_picture(
        plot, force=force, inputs=[*models, *(named_inputs.split(one, "text")[1] for one in text)]
    )


def _counts(
    path: Path, releases: "dict[str, Release]", vocabulary: "Vocabulary | None"
) -> "PrivateCounts | SegmentedCounts":
    """The private counts of the one vocabulary that everything has."""
    from bayesgram.private.counts_on_disk import open_by_segment

    sizes = {len(release.ngrams) for release in releases.values()}
    if not sizes and vocabulary:
        sizes = {len(vocabulary)}
    if not sizes:
        raise UsageError("--against needs a release folder or --vocab, to know what was counted.")
    if len(sizes) > 1:
        raise UsageError(
            "the releases have vocabularies of different sizes; evaluate those of one vocabulary together."
        )
    with console.step("Reading counts"):
        return open_by_segment(path, vocabulary_size=sizes.pop())


def _divergences(
    releases: "dict[str, Release]",
    counts: "PrivateCounts | SegmentedCounts",
    vocabulary: "Vocabulary | None",
) -> list[dict[str, Any]]:
    """KL of public text alone and of every release; of the longest n-grams, where there are several orders.

    A release of a segment is judged by what was written there; public text by everybody's.
    """
    from bayesgram.audit.evaluation import comparison_row, kl_divergence, totals_for
    from bayesgram.public.vocabulary import public_distribution
    from bayesgram.text.ngrams import ngram_orders

    rows = []
    if vocabulary:
        counts.check_vocabulary(len(vocabulary), vocabulary.fingerprint)
        orders = ngram_orders(vocabulary.ngrams)
        longest = orders == orders.max()
        kl = kl_divergence(
            totals_for(counts)[longest], public_distribution(vocabulary.counts[longest])
        )
        rows.append(comparison_row(PUBLIC_ALONE, None, kl))
    for name, release in releases.items():
        counts.check_vocabulary(len(release.ngrams), release.card.vocabulary["fingerprint"])
        longest = release.orders == release.orders.max()
        kl = kl_divergence(totals_for(counts, release)[longest], release.probabilities[longest])
        rows.append(comparison_row(name, release, kl))
    return rows


def _baselines(
    releases: "dict[str, Release]",
    counts: "PrivateCounts | SegmentedCounts | None",
    vocabulary: "Vocabulary | None",
) -> "Iterator[tuple[str, LanguageModel]]":
    """Models of public text alone and of the private counts, where these are given."""
    from bayesgram.lm.language_model import LanguageModel

    if vocabulary:
        yield (
            PUBLIC_ALONE,
            LanguageModel.from_counts(
                vocabulary.ngrams, vocabulary.counts + 1.0, vocabulary.tokenizer
            ),
        )
    if counts:
        yield PRIVATE, _private_model(counts, releases, vocabulary)


def _private_model(
    counts: "PrivateCounts | SegmentedCounts",
    releases: "dict[str, Release]",
    vocabulary: "Vocabulary | None",
) -> "LanguageModel":
    """A model of the exact counts, each n-gram once more, so that it has the words of the others."""
    from bayesgram.audit.evaluation import totals_for
    from bayesgram.lm.language_model import LanguageModel
    from bayesgram.text.tokenizer import Tokenizer

    if vocabulary:
        return LanguageModel.from_counts(
            vocabulary.ngrams, totals_for(counts) + 1.0, vocabulary.tokenizer
        )
    release = next(iter(releases.values()))
    tokenizer = Tokenizer.from_name(release.card.vocabulary["tokenizer"])
    return LanguageModel.from_counts(release.ngrams, totals_for(counts) + 1.0, tokenizer)


def _label(row: dict[str, Any]) -> str:
    """The label, its grade where it protects little, and the unit where that is less than a user's whole text."""
    label = row["guarantee"] if row["grade"] is None else f"{row['guarantee']}, {row['grade']}"
    return f"{label} for {row['unit']}" if row.get("unit") else label


def print_rows(title: str, rows: list[dict[str, Any]], *, mechanism: bool = True) -> None:
    """The comparison as a table; KL is infinite where a release rules out what people wrote."""
    cells = [
        (
            row["release"],
            *([row["mechanism"]] if mechanism else []),
            console.number(row["epsilon"]),
            console.number(row["delta"]),
            _label(row),
            "∞" if row["kl"] is None else f"{row['kl']:.4f}",
        )
        for row in rows
    ]
    columns = ("release", *(["mechanism"] if mechanism else []), "ε", "δ", "guarantee", "KL")
    console.print_table(title, columns, cells, right=("ε", "δ", "KL"))
