"""bayesgram evaluate: releases and language models against private counts and held-out text."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayesgram.cli import console, options
from bayesgram.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

    from bayesgram.private.counts import UserCounts
    from bayesgram.public.vocabulary import Vocabulary
    from bayesgram.released.language_model import LanguageModel
    from bayesgram.released.release import Release
    from bayesgram.text.tokens import Tokenizer

PUBLIC_ALONE = "public text alone"
PRIVATE = "private counts (not for publication)"


def evaluate(
    releases: Annotated[
        list[Path],
        typer.Argument(
            metavar="RELEASE...",
            help="Release folders; with --text also model folders, ARPA files.",
            show_default=False,
        ),
    ],
    against: Annotated[Path | None, typer.Option(help="The private counts to judge by.", show_default=False)] = None,
    text: Annotated[
        str | None,
        typer.Option(help="Held-out text to predict: a file, folder or quoted pattern.", show_default=False),
    ] = None,
    vocab: Annotated[
        Path | None, typer.Option(help="Adds a row for the public distribution.", show_default=False)
    ] = None,
    tokenizer: options.TokenizerOption = None,
    text_column: options.TextColumn = "text",
    skip_bad_rows: options.SkipBadRows = False,
    json: options.Json = False,
) -> None:
    """Compare releases with private counts, held-out text or both. For the keeper of the data only.

    --tokenizer is needed only for ARPA files and for models cut by a tokenizer.json.

    --against: KL(p ‖ θ) of the longest n-grams, lower is better. --text: as language models, perplexity (of words and
    sentence ends; without unknown words), next words and keystrokes saved; with --against also a model of the counts.

    Example: bayesgram evaluate out-paper out-laplace --against counts --vocab vocab.parquet --text held-out.parquet
    """
    from bayesgram.audit.utility import DISCLOSURE
    from bayesgram.public.vocabulary import Vocabulary
    from bayesgram.released.release import CARD, Release

    if against is None and text is None:
        raise UsageError("nothing to judge by: give --against with private counts, --text with held-out text, or both.")
    loaded = {str(path): Release.load(path) for path in releases if text is None or (path / CARD).is_file()}
    vocabulary = Vocabulary.load(vocab) if vocab else None
    counts = None if against is None else _counts(against, loaded, vocabulary)
    found: dict[str, Any] = {"warning": DISCLOSURE}
    if counts is not None:
        found["releases"] = _divergences(loaded, counts, vocabulary)
    if text is not None:
        with console.reading("Reading text", then="Scoring text") as bar:
            records = bar.records([text], text_column=text_column, user_column=None, skip_bad_rows=skip_bad_rows)
            texts = [batch.text for batch in records]
        cut = None if tokenizer is None else options.tokenizer(tokenizer, keep_case=None)
        found["text"] = _qualities([str(path) for path in releases], loaded, texts, counts, vocabulary, cut)
    if json:
        console.print_json(found)
        return
    if "releases" in found:
        print_rows("KL(p ‖ θ) against private counts", found["releases"])
    if "text" in found:
        _print_qualities(found["text"])
    console.say(f"These numbers are {DISCLOSURE}.")


def _counts(path: Path, releases: "dict[str, Release]", vocabulary: "Vocabulary | None") -> "UserCounts":
    """The private counts of the one vocabulary that everything has."""
    from bayesgram.private.store import load_counts

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
        return load_counts(path, vocabulary_size=sizes.pop())


def _divergences(
    releases: "dict[str, Release]", counts: "UserCounts", vocabulary: "Vocabulary | None"
) -> list[dict[str, Any]]:
    """KL of public text alone and of every release; of the longest n-grams, where there are several orders."""
    from bayesgram.audit.utility import comparison_row, kl_divergence
    from bayesgram.public.prior import public_distribution
    from bayesgram.text.ngrams import ngram_orders

    rows = []
    if vocabulary:
        counts.check_vocabulary(len(vocabulary), vocabulary.fingerprint)
        orders = ngram_orders(vocabulary.ngrams)
        longest = orders == orders.max()
        kl = kl_divergence(counts.totals[longest], public_distribution(vocabulary.counts[longest]))
        rows.append(comparison_row(PUBLIC_ALONE, None, kl))
    for name, release in releases.items():
        counts.check_vocabulary(len(release.ngrams), release.card.vocabulary["fingerprint"])
        longest = release.orders == release.orders.max()
        kl = kl_divergence(counts.totals[longest], release.probabilities[longest])
        rows.append(comparison_row(name, release, kl))
    return rows


def _qualities(
    names: list[str],
    releases: "dict[str, Release]",
    texts: "list[pa.LargeBinaryArray]",
    counts: "UserCounts | None",
    vocabulary: "Vocabulary | None",
    cut: "Tokenizer | None",
) -> list[dict[str, Any]]:
    """How well each model predicts the text, the two baselines first."""
    from bayesgram.audit.text import text_quality
    from bayesgram.released.language_model import LanguageModel

    models: dict[str, LanguageModel] = {}
    if vocabulary:
        models[PUBLIC_ALONE] = LanguageModel.from_counts(
            vocabulary.ngrams, vocabulary.counts + 1.0, vocabulary.tokenizer
        )
    if counts:
        models[PRIVATE] = _private_model(counts, releases, vocabulary)
    rows = []
    for name in [*models, *names]:
        with console.step(f"Predicting with {name}"):
            model = models[name] if name in models else LanguageModel.open(name, tokenizer=cut)
            rows.append({"model": name, **text_quality(model, texts).to_json()})
    return rows


def _private_model(
    counts: "UserCounts", releases: "dict[str, Release]", vocabulary: "Vocabulary | None"
) -> "LanguageModel":
    """A model of the exact counts, each n-gram once more, so that it has the words of the others."""
    from bayesgram.released.language_model import LanguageModel
    from bayesgram.text.tokens import Tokenizer

    if vocabulary:
        return LanguageModel.from_counts(vocabulary.ngrams, counts.totals + 1.0, vocabulary.tokenizer)
    release = next(iter(releases.values()))
    tokenizer = Tokenizer.from_name(release.card.vocabulary["tokenizer"])
    return LanguageModel.from_counts(release.ngrams, counts.totals + 1.0, tokenizer)


def _print_qualities(rows: list[dict[str, Any]]) -> None:
    """The comparison as a table."""
    columns = ("model", "n-grams", "perplexity", "known words", "unknown", "coverage", "top 1", "top 3", "keys saved")
    cells = [
        (
            row["model"],
            f"{row['ngrams']:,}",
            f"{row['perplexity']:.1f}",
            f"{row['perplexity_known']:.1f}",
            *(
                f"{row[name]:.1%}"
                for name in ("out_of_vocabulary", "coverage", "accuracy_1", "accuracy_3", "keystrokes_saved")
            ),
        )
        for row in rows
    ]
    console.print_table("Held-out text", columns, cells, right=columns[1:])
    console.say(
        "perplexity: of words and sentence ends, unknown words as one; known words: without them. Compare models of the"
        f" same words only. Keys saved: on about {rows[0]['keystroke_words']:,} words, three suggestions, a tap each."
    )


def print_rows(title: str, rows: list[dict[str, Any]], *, mechanism: bool = True) -> None:
    """The comparison as a table; KL is infinite where a release rules out what people wrote."""
    cells = [
        (
            row["release"],
            *([row["mechanism"]] if mechanism else []),
            console.number(row["epsilon"]),
            console.number(row["delta"]),
            row["guarantee"] if row["grade"] is None else f"{row['guarantee']}, {row['grade']}",
            "∞" if row["kl"] is None else f"{row['kl']:.4f}",
        )
        for row in rows
    ]
    columns = ("release", *(["mechanism"] if mechanism else []), "ε", "δ", "guarantee", "KL")
    console.print_table(title, columns, cells, right=("ε", "δ", "KL"))
