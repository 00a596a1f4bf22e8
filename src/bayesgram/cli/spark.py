"""The parts of commands that differ with --engine spark."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayesgram.choices import EngineName
from bayesgram.cli import console
from bayesgram.cli.mechanisms import load, read
from bayesgram.errors import UsageError

if TYPE_CHECKING:
    from bayesgram.mechanisms.discovery import Settings
    from bayesgram.privacy.budget import Budget
    from bayesgram.private.counts import PrivateCounts
    from bayesgram.private.streaming import CountSummary
    from bayesgram.public.candidate_weights import PublicTextModel
    from bayesgram.public.discovered_ngrams import Discovery
    from bayesgram.public.vocabulary import Vocabulary
    from bayesgram.text.tokenizer import Tokenizer

BadRows = dict[str, int]


def chosen(engine: EngineName, master: str | None) -> bool:
    """Whether it is Spark; an option of Spark without it is refused, not ignored."""
    if master is not None and engine is not EngineName.SPARK:
        raise UsageError(
            f"--master {master}: has a meaning only with --engine spark; add it or leave this out."
        )
    return engine is EngineName.SPARK


def refuse_segments(engine: EngineName, master: str | None, by: str) -> None:
    """Segments are counted and released on this machine."""
    if chosen(engine, master):
        raise UsageError(
            f"counts by {by!r}: segments are counted and released by --engine local; leave spark out."
        )


def check_rounds(rounds: int) -> None:
    """Refuse what a cluster does not do, before anything is read."""
    from bayesgram.spark.discovery import check_rounds as check

    check(rounds)


def vocabulary(
    given: Mapping[str, Sequence[str]],
    master: str | None,
    *,
    tokenizer: "Tokenizer",
    text_column: str,
    skip_bad_rows: bool,
    **choice: Any,  # noqa: ANN401 - order and size, or n-grams of a list
) -> "tuple[Vocabulary, BadRows]":
    """The vocabulary, and why rows were skipped."""
    from bayesgram.io.records import Columns
    from bayesgram.spark.frames import open_sources
    from bayesgram.spark.session import session
    from bayesgram.spark.vocabulary import build_vocabulary, count_listed_ngrams

    with session(master) as spark, console.step("Reading public text on Spark"):
        opened = open_sources(
            spark, given, Columns(text_column, None, warn_about_users=True), tokenizer
        )
        make = count_listed_ngrams if "ngrams" in choice else build_vocabulary
        made, bad = make(opened, **choice, tokenizer=tokenizer, skip_bad_rows=skip_bad_rows)
    return made, bad.by_reason


def count_to_folder(
    private: Sequence[str],
    vocabulary: "Vocabulary",
    output: Path,
    master: str | None,
    *,
    user_column: str,
    text_column: str,
    skip_bad_rows: bool,
    force: bool,
    allow_public: bool,
) -> "tuple[CountSummary, BadRows]":
    """Write a counts folder; say how much was counted, and why rows were skipped."""
    from bayesgram.io import no_rows_error
    from bayesgram.io.records import Columns
    from bayesgram.private.streaming import CountSummary
    from bayesgram.spark.counts import count_texts, save_counts
    from bayesgram.spark.frames import text_from_inputs
    from bayesgram.spark.session import session

    with session(master) as spark, console.step("Counting private text on Spark"):
        texts = text_from_inputs(spark, private, Columns(text_column, user_column))
        counts = count_texts(
            texts, vocabulary, skip_bad_rows=skip_bad_rows, allow_public=allow_public
        )
        if not counts.rows_read:
            raise no_rows_error(counts.bad_rows)
        save_counts(counts, vocabulary, output, force=force)
        return CountSummary(*counts.sizes()), counts.bad_rows.by_reason


def discover(
    private: Sequence[str],
    public: "PublicTextModel",
    settings: "Settings",
    budget: "Budget",
    master: str | None,
    *,
    user_column: str,
    text_column: str,
    skip_bad_rows: bool,
    **told: Any,  # noqa: ANN401 - seed and ledger, as of discover_in
) -> "Discovery":
    """What many people write and the vocabulary lacks."""
    from bayesgram.io.records import Columns
    from bayesgram.mechanisms.discovery import discover_in_text
    from bayesgram.spark.discovery import SparkPrivateText
    from bayesgram.spark.frames import text_from_inputs
    from bayesgram.spark.session import session

    with session(master) as spark, console.step("Weighing private text on Spark"):
        text = SparkPrivateText(
            text_from_inputs(spark, private, Columns(text_column, user_column)),
            skip_bad_rows=skip_bad_rows,
        )
        return discover_in_text(text, public, settings, budget, **told)


@contextmanager
def opened(
    counts: Path, vocab: Path, engine: EngineName, master: str | None, *, in_memory: bool
) -> "Iterator[tuple[PrivateCounts, Vocabulary]]":
    """The private counts, on disk, in memory or on Spark, and the vocabulary they are over."""
    if not chosen(engine, master):
        yield (load if in_memory else read)(counts, vocab)
        return
    from bayesgram.public.vocabulary import Vocabulary
    from bayesgram.spark.counts import load_counts
    from bayesgram.spark.session import session

    vocabulary = Vocabulary.load(vocab)
    with session(master) as spark:
        yield load_counts(spark, counts, vocabulary_size=len(vocabulary)), vocabulary
