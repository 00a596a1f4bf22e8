"""bayesgram vocab and bayesgram count: from text to counts."""

from dataclasses import replace
from typing import Annotated, Any

import typer

from bayesgram.cli import console, options, spark
from bayesgram.engines.choices import EngineName
from bayesgram.errors import UsageError


def vocab(
    public: options.Public,
    output: options.Output,
    order: Annotated[int | None, typer.Option(help="Tokens in an n-gram, 1 to 6.", show_default="3")] = None,
    orders: Annotated[
        str | None,
        typer.Option(help="Several orders in one vocabulary, such as 1,2,3: for language models.", show_default=False),
    ] = None,
    size: Annotated[int, typer.Option(help="How many n-grams to keep, of each order.")] = 50_000,
    boundaries: Annotated[
        bool, typer.Option("--boundaries", help="N-grams may begin with <s> and end with </s>.")
    ] = False,
    text_column: options.TextColumn = "text",
    tokenizer: options.TokenizerOption = None,
    keep_case: options.KeepCase = None,
    skip_bad_rows: options.SkipBadRows = False,
    memory: options.Memory = "1GB",
    engine: options.Engine = EngineName.LOCAL,
    master: options.Master = None,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Make a vocabulary: the most frequent n-grams of PUBLIC text.

    Example: bayesgram vocab wiki/*.txt.gz --order 3 --size 50000 -o vocab.parquet
    """
    from bayesgram.files import left_out
    from bayesgram.files.writing import check_free
    from bayesgram.public.vocabulary import Vocabulary

    check_free(output, force=force, inputs=public)
    room = options.memory(memory)
    cut = replace(options.tokenizer(tokenizer, keep_case=keep_case), boundaries=boundaries)
    several = _orders(order, orders)
    rows: dict[str, Any] = {"text_column": text_column, "skip_bad_rows": skip_bad_rows}
    if spark.chosen(engine, master):
        made, bad_rows = spark.vocabulary(public, master, orders=several, size=size, tokenizer=cut, **rows)
    else:
        with console.reading("Reading public text", then="Choosing n-grams") as bar:
            records = bar.records(public, user_column=None, refuse_nothing=True, **rows)
            made = Vocabulary.from_records(records, order=several, size=size, tokenizer=cut, memory=room)
        bad_rows = records.bad_rows.by_reason
    made.save(output, force=force)
    console.report(
        {
            "output": str(output),
            "ngrams": len(made),
            "order": made.order if len(made.parts) == 1 else [part.order for _, part in made.parts],
            "tokenizer": made.tokenizer.name,
            "fingerprint": made.fingerprint,
            "bad_rows_skipped": bad_rows,
            **({"not_read": left_out(public)} if json else {}),  # said in a line of its own for people
        },
        json=json,
    )


def _orders(order: int | None, orders: str | None) -> list[int]:
    """One order, or several."""
    if order is not None and orders is not None:
        raise UsageError("--order and --orders: give one of them.")
    try:
        return [order or 3] if orders is None else [int(part) for part in orders.split(",")]
    except ValueError:
        raise UsageError(f"orders={orders!r}: give whole numbers from 1 to 6, such as 1,2,3.") from None


def count(
    private: options.Private,
    vocab: options.Vocab,
    output: options.Output,
    user_column: options.UserColumn = "user",
    text_column: options.TextColumn = "text",
    tokenizer: options.TokenizerOption = None,
    keep_case: options.KeepCase = None,
    skip_bad_rows: options.SkipBadRows = False,
    memory: options.Memory = "1GB",
    engine: options.Engine = EngineName.LOCAL,
    master: options.Master = None,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Count the vocabulary's n-grams in every user's PRIVATE text. The result is private.

    --tokenizer is needed only for a vocabulary made elsewhere, which doesn't say how its text was cut.

    Example: bayesgram count messages/*.parquet --vocab vocab.parquet --user-column user --text-column text -o counts
    """
    from bayesgram.files import left_out
    from bayesgram.files.writing import check_free
    from bayesgram.private.store import CONTENTS
    from bayesgram.private.streaming import count_to_folder
    from bayesgram.public.vocabulary import Vocabulary

    check_free(output, force=force, contents=CONTENTS, inputs=[*private, vocab])
    room = options.memory(memory)
    named = None if tokenizer is None and keep_case is None else options.tokenizer(tokenizer, keep_case=keep_case)
    vocabulary = Vocabulary.load(vocab, tokenizer=named)
    if vocabulary.finder.repeated:
        console.say(
            f"warning: {vocabulary.finder.repeated} n-grams stand in {vocab} more than once; only the first is counted."
        )
    if vocabulary.never_found:
        console.say(
            f"warning: {vocabulary.never_found} n-grams of {vocab} have capitals, and the text is lower-cased:"
            " they are never found; --keep-case keeps capitals."
        )
    rows: dict[str, Any] = {"user_column": user_column, "text_column": text_column, "skip_bad_rows": skip_bad_rows}
    if spark.chosen(engine, master):
        counted, bad_rows = spark.count_to_folder(private, vocabulary, output, master, force=force, **rows)
    else:
        with console.reading("Counting private text", then="Merging counts") as bar:
            records = bar.records(private, refuse_nothing=True, **rows)
            counted = count_to_folder(records, vocabulary, output, memory=room, force=force)
        bad_rows = records.bad_rows.by_reason
    if not counted.nonzeros:
        console.say(
            f"warning: no n-gram of {vocab} was found in any text. The counts are empty: are text, column and"
            " vocabulary in one language, and cut alike?"
        )
    told = {"not_read": left_out(private), "any_ngram_found": counted.nonzeros > 0} if json else {}
    console.report(
        {
            "output": str(output),
            "users": console.about(counted.users),
            "nonzeros": console.about(counted.nonzeros),
            "bad_rows_skipped": bad_rows,
            **told,
            "note": "private: keep this folder where the text is kept",
        },
        json=json,
    )
