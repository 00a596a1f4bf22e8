"""The parts of commands that differ with --engine: on this machine, or on Spark."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayesgram.choices import EngineName
from bayesgram.cli import console, mechanism_options
from bayesgram.errors import UsageError

if TYPE_CHECKING:
    from bayesgram.io import BadRows
    from bayesgram.mechanisms.discovery import Settings
    from bayesgram.privacy.budget import Budget
    from bayesgram.private.counts import CountSummary, PrivateCounts
    from bayesgram.public.candidate_weights import PublicTextModel
    from bayesgram.public.discovered_ngrams import Discovery
    from bayesgram.public.vocabulary import Vocabulary
    from bayesgram.text.tokenizer import Tokenizer


def is_spark(engine: EngineName, master: str | None) -> bool:
    """Return whether the engine is Spark; refuse --master without it."""
    if master is not None and engine is not EngineName.SPARK:
        from bayesgram.spark.session import redact_address

        raise UsageError(
            f"--master {redact_address(master)}: has a meaning only with --engine spark; add it or"
            " leave this out."
        )
    return engine is EngineName.SPARK


def refuse_segments_on_spark(engine: EngineName, master: str | None, by: str) -> None:
    """Refuse segments on Spark: they are counted and released on this machine.

    Args:
        engine: The value of --engine.
        master: Spark's master URL, or the address of a Spark Connect server.
        by: The column that the segments are in.
    """
    if is_spark(engine, master):
        raise UsageError(
            f"counts by {by!r}: segments are counted and released by --engine local; leave spark"
            " out."
        )


def refuse_series_on_spark(engine: EngineName, master: str | None) -> None:
    """Refuse a release of a series on Spark: what users have used is kept on this machine.

    Args:
        engine: The value of --engine.
        master: Spark's master URL.
    """
    if is_spark(engine, master):
        raise UsageError(
            "a series keeps account of every user on this machine, so its releases are made by"
            " --engine local; leave spark out, or release without --series."
        )


@contextmanager
def open_counts(
    counts: Path, vocab: Path, engine: EngineName, master: str | None, *, in_memory: bool
) -> "Iterator[tuple[PrivateCounts, Vocabulary]]":
    """Open private counts and load their vocabulary.

    Args:
        counts: The path of the counts.
        vocab: The path of the vocabulary.
        engine: Where the counts are worked on.
        master: Spark's master URL, or the address of a Spark Connect server.
        in_memory: Whether counts on this machine are loaded; else they stay on disk.
    """
    if not is_spark(engine, master):
        if in_memory:
            yield mechanism_options.load_counts(counts, vocab)
        else:
            yield mechanism_options.open_counts(counts, vocab)
        return
    from bayesgram.public.vocabulary import Vocabulary
    from bayesgram.spark.counts import load_counts
    from bayesgram.spark.session import session

    vocabulary = Vocabulary.load(vocab)
    with session(master) as spark:
        spark_counts = load_counts(spark, counts, vocabulary_size=len(vocabulary))
        try:
            yield spark_counts, vocabulary
        finally:
            spark_counts.unpersist()  # a server would keep them when the session is over


def make_vocabulary_on_spark(
    sources: Mapping[str, Sequence[str]],
    master: str | None,
    *,
    tokenizer: "Tokenizer",
    text_column: str,
    skip_bad_rows: bool,
    delimiter: str | None,
    encoding: str,
    **choice: Any,  # noqa: ANN401 - order and size, or n-grams of a list
) -> "tuple[Vocabulary, dict[str, int]]":
    """Make a vocabulary of public text on Spark.

    Args:
        sources: The paths of each source.
        master: Spark's master URL, or the address of a Spark Connect server.
        tokenizer: How text is cut.
        text_column: The column that holds the text.
        skip_bad_rows: Whether rows that can't be read are skipped.
        delimiter: What separates the columns of CSV and TSV files; None for what the ending says.
        encoding: That of text files.
        **choice: `order` and `size` of the n-grams that are chosen, or the `ngrams` of a list.
    """
    from bayesgram.io.inputs import refuse_databases
    from bayesgram.io.records import Columns, Dialect
    from bayesgram.spark.frames import open_sources
    from bayesgram.spark.session import session
    from bayesgram.spark.vocabulary import build_vocabulary, count_listed_ngrams

    refuse_databases(path for paths in sources.values() for path in paths)
    with session(master) as spark, console.step("Reading public text on Spark"):
        dialect = Dialect(delimiter, encoding)
        columns = Columns(text_column, None, warn_about_users=True, dialect=dialect)
        opened = open_sources(spark, sources, columns, tokenizer)
        make = count_listed_ngrams if "ngrams" in choice else partial(build_vocabulary, spark)
        vocabulary, bad_rows = make(
            opened, **choice, tokenizer=tokenizer, skip_bad_rows=skip_bad_rows
        )
    return vocabulary, bad_rows.by_reason


def count_to_folder_on_spark(
    private: Sequence[str],
    vocabulary: "Vocabulary",
    output: Path,
    master: str | None,
    *,
    user_column: str,
    text_column: str,
    skip_bad_rows: bool,
    delimiter: str | None,
    encoding: str,
    force: bool,
    allow_public: bool,
) -> "tuple[CountSummary, BadRows]":
    """Count private text on Spark, and write a counts folder.

    Args:
        private: Paths of the private text.
        vocabulary: The n-grams to count.
        output: The counts folder.
        master: Spark's master URL, or the address of a Spark Connect server.
        user_column: The column that holds the user's id.
        text_column: The column that holds the text.
        skip_bad_rows: Whether rows that can't be read are skipped.
        delimiter: What separates the columns of CSV and TSV files; None for what the ending says.
        encoding: That of text files.
        force: Whether an existing folder is replaced.
        allow_public: Whether rows of public text among the private ones are allowed.
    """
    from bayesgram.io import no_rows_error
    from bayesgram.io.inputs import refuse_databases
    from bayesgram.io.records import Columns, Dialect
    from bayesgram.private.counts import summarise_counts
    from bayesgram.spark.counts import count_texts, save_counts
    from bayesgram.spark.frames import text_from_inputs
    from bayesgram.spark.session import session

    refuse_databases(private)
    with session(master) as spark, console.step("Counting private text on Spark"):
        columns = Columns(text_column, user_column, dialect=Dialect(delimiter, encoding))
        texts = text_from_inputs(spark, private, columns)
        counts = count_texts(
            texts, vocabulary, skip_bad_rows=skip_bad_rows, allow_public=allow_public
        )
        try:
            if not counts.rows_read:
                raise no_rows_error(counts.bad_rows)
            save_counts(counts, vocabulary, output, force=force)
            return summarise_counts(counts, vocabulary), counts.bad_rows
        finally:
            counts.unpersist()  # a server would keep them when the session is over


def discover_on_spark(
    private: Sequence[str],
    public: "PublicTextModel",
    settings: "Settings",
    budget: "Budget",
    master: str | None,
    *,
    user_column: str,
    text_column: str,
    skip_bad_rows: bool,
    delimiter: str | None,
    encoding: str,
    **arguments: Any,  # noqa: ANN401 - those of discover_in
) -> "Discovery":
    """Find n-grams that many people write and the vocabulary lacks, on Spark.

    Args:
        private: Paths of the private text.
        public: The public text, as a model.
        settings: What is searched for.
        budget: What the discovery may spend.
        master: Spark's master URL, or the address of a Spark Connect server.
        user_column: The column that holds the user's id.
        text_column: The column that holds the text.
        skip_bad_rows: Whether rows that can't be read are skipped.
        delimiter: What separates the columns of CSV and TSV files; None for what the ending says.
        encoding: That of text files.
        **arguments: Those of `discover_in_text`.
    """
    from bayesgram.io.inputs import refuse_databases
    from bayesgram.io.records import Columns, Dialect
    from bayesgram.mechanisms.discovery import discover_in_text
    from bayesgram.spark.discovery import SparkPrivateText
    from bayesgram.spark.frames import text_from_inputs
    from bayesgram.spark.session import session

    refuse_databases(private)
    with session(master) as spark, console.step("Weighing private text on Spark"):
        columns = Columns(text_column, user_column, dialect=Dialect(delimiter, encoding))
        texts = text_from_inputs(spark, private, columns)
        text = SparkPrivateText(texts, skip_bad_rows=skip_bad_rows)
        return discover_in_text(text, public, settings, budget, **arguments)
