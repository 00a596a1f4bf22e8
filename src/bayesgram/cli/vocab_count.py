"""bayesgram vocab and bayesgram count: from text to a vocabulary, and to private counts."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayesgram.cli import console, engines, named_inputs, options
from bayesgram.cli.options import parse_int, parse_list
from bayesgram.errors import Argument, BayesgramError, UsageError

if TYPE_CHECKING:
    from bayesgram.io.segments import Segments
    from bayesgram.public.public_model import PublicModel
    from bayesgram.public.sources import OpenSource
    from bayesgram.public.vocabulary import Vocabulary
    from bayesgram.text.tokenizer import Tokenizer

# --- vocab ---


@dataclass(frozen=True)
class ModelRequest:
    """The public model that `vocab` writes beside a vocabulary, if any."""

    output: Path | None
    order: int | None  # tokens of its longest n-grams; None for the default
    size: str | None  # how many n-grams, or how many bytes ("10MB")
    memory: int  # bytes

    @classmethod
    def from_options(
        cls,
        model: Path | None,
        order: int | None,
        size: str | None,
        memory: int,
        *,
        no_model: bool,
        default: Path,
        obstacle: str | None,
    ) -> "ModelRequest":
        """Return the model that the options ask for; one is made by default.

        Args:
            model: The path of --model.
            order: The order of --model-order.
            size: The size of --model-size.
            memory: Bytes for counting.
            no_model: Whether --no-model leaves the model out.
            default: Where the model goes without --model.
            obstacle: Why no model can be made; None if one can. Then the default is no model.
        """
        if no_model:
            if model is not None:
                raise UsageError("--model and --no-model: give one of them.")
            return cls(None, order, size, memory)
        if model is None and obstacle is not None:
            console.print_note(
                f"note: no public model is kept, because {obstacle}. `export` and `predict` will"
                " give a rough model of the release alone."
            )
            return cls(None, order, size, memory)
        return cls(default if model is None else model, order, size, memory)

    def check(self, vocabulary: Path, *, force: bool, inputs: list[str], on_spark: bool) -> None:
        """Refuse what can't be made, before any text is read.

        Args:
            vocabulary: Where the vocabulary goes.
            force: Whether the model may replace another.
            inputs: What the command reads, which the model must not replace.
            on_spark: Whether the vocabulary is made on Spark.
        """
        if self.output is None:
            if self.order is not None or self.size is not None:
                raise UsageError(
                    "--model-order and --model-size: are for a public model, and none is kept;"
                    " leave them out."
                )
            return
        from bayesgram.public.public_model import DEFAULT_ORDER as DEFAULT_MODEL_ORDER
        from bayesgram.public.public_model import check_model_order, check_target

        if on_spark:
            raise UsageError(
                "--model: is made on this machine; leave --engine spark or --model out."
            )
        if self.output.resolve() == vocabulary.resolve():
            raise UsageError(
                f"--model {self.output}: is the --output too; give the model a path of its own."
            )
        check_model_order(DEFAULT_MODEL_ORDER if self.order is None else self.order)
        self.size_limit()
        check_target(self.output, force=force, inputs=inputs)

    def make(
        self, vocabulary: "Vocabulary", opened: "Mapping[str, OpenSource]"
    ) -> "PublicModel | None":
        """Make the model of a vocabulary's sources, if one is asked for."""
        if self.output is None:
            return None
        from bayesgram.public.public_model import DEFAULT_ORDER as DEFAULT_MODEL_ORDER
        from bayesgram.public.public_model import PublicModel

        order = DEFAULT_MODEL_ORDER if self.order is None else self.order
        return PublicModel.from_sources(
            vocabulary, opened, order=order, memory=self.memory, **self.size_limit()
        )

    def size_limit(self) -> dict[str, int]:
        """Return the most n-grams, or the most bytes, as an argument of `PublicModel`."""
        if self.size is None:
            from bayesgram.public.public_model import DEFAULT_SIZE as DEFAULT_MODEL_SIZE

            return {"size": DEFAULT_MODEL_SIZE}
        if self.size.strip().upper().endswith("B"):
            return {"max_size": options.parse_file_size("--model-size", self.size)}
        try:
            return {"size": parse_int(self.size)}
        except options.NotANumberError:
            raise UsageError(
                f"--model-size {self.size!r}: give a number of n-grams, such as 500k, or a size,"
                " such as 10MB."
            ) from None


def vocab(  # noqa: PLR0915 - one step after another
    public: options.Public,
    output: options.Output,
    order: Annotated[
        int | None,
        typer.Option(
            parser=partial(parse_int, plural="--orders"),
            help="Make n-grams of one length only: tokens in an n-gram, 1 to 6.",
            show_default=False,
        ),
    ] = None,
    orders: Annotated[
        str | None,
        typer.Option(
            help="Lengths of the n-grams, in tokens, such as 1,2,3 for words, pairs and triples.",
            show_default="1,2,3",
        ),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(
            help="How many n-grams to keep, of each order, such as 50k or 50k,300k,200k.",
            show_default="50000",
        ),
    ] = None,
    listed: Annotated[
        Path | None,
        typer.Option(
            "--list",
            help="Count these n-grams instead: a vocabulary, or a column `ngram`.",
            show_default=False,
        ),
    ] = None,
    boundaries: Annotated[
        bool,
        typer.Option(
            "--boundaries",
            help="N-grams may begin with <s> and end with </s>, the boundaries of a sentence.",
            show_default="yes, unless --order, --orders or --list is given",
        ),
    ] = False,
    no_boundaries: Annotated[
        bool,
        typer.Option("--no-boundaries", help="N-grams have no boundaries.", show_default=False),
    ] = False,
    model: Annotated[
        Path | None,
        typer.Option(
            help="Where the public model goes: a language model of each source's text, which"
            " `export` and `predict` start from.",
            show_default="OUTPUT.model",
        ),
    ] = None,
    no_model: Annotated[
        bool, typer.Option("--no-model", help="Keep no public model.", show_default=False)
    ] = False,
    model_order: Annotated[
        int | None,
        typer.Option(
            parser=parse_int,
            help="Words in the longest n-grams of the public model, 2 to 6.",
            show_default="3",
        ),
    ] = None,
    model_size: Annotated[
        str | None,
        typer.Option(
            help="How many n-grams the public model keeps for each source, such as 500000, or how"
            " large it is, such as 10MB.",
            show_default="10 million n-grams",
        ),
    ] = None,
    text_column: options.TextColumn = "text",
    dialect: options.DialectOptions = options.READ_AS_USUAL,
    tokenizer_options: options.TokenizerOptions = options.DEFAULTS,
    block_options: options.BlockOptions = options.DEFAULT_BLOCK,
    skip_bad_rows: options.SkipBadRows = False,
    engine_options: options.EngineOptions = options.LOCAL,
    force: options.Force = False,
    json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Make a vocabulary: the most frequent n-grams of PUBLIC text.

    By default it has words, pairs and triples (orders 1, 2 and 3) with the boundaries of sentences:
    what a keyboard model needs. --order 3 makes triples only.

    Several sources have names (wiki=folder talk=lines.txt) and weigh alike: n-grams are chosen by
    the mean of their frequencies, and the counts of each source are kept. A source is text, an ARPA
    file, a release, or a vocabulary.

    OUTPUT.rows, beside the output, has hashes of the public rows: `count` stops if private text was
    among them.

    OUTPUT.model, beside the output, is the public model: a language model of all n-grams of each
    source, over the words of the vocabulary. `export` and `predict` find it there. A source that is
    not text (a release, a vocabulary, an ARPA file) has none.

    Example: bayesgram vocab wiki/*.txt.gz -o vocab.parquet
    """
    from bayesgram.io import list_unread
    from bayesgram.io.atomic import check_writable
    from bayesgram.public.mixture import find_identical_sources
    from bayesgram.public.public_rows import check_rows_path
    from bayesgram.public.sources import is_text_path
    from bayesgram.public.vocabulary import Vocabulary, ngram_list_provenance, read_ngram_list
    from bayesgram.public.vocabulary_io import default_model_path
    from bayesgram.releases.provenance import Provenance

    sources = named_inputs.source_paths(public)
    source_paths = named_inputs.all_paths(sources)
    inputs = [*source_paths, *([str(listed)] if listed else [])]
    check_writable(output, force=force, inputs=inputs)
    check_rows_path(output)
    on_spark = engines.is_spark(engine_options.engine, engine_options.master)
    request = ModelRequest.from_options(
        model,
        model_order,
        model_size,
        engine_options.memory_bytes,
        no_model=no_model,
        default=default_model_path(output),
        obstacle=_model_obstacle(source_paths, text_column, on_spark=on_spark),
    )
    request.check(output, force=force, inputs=inputs, on_spark=on_spark)
    # N-grams that are named (by their order, or in a list) are made as named.
    is_default = order is None and orders is None and listed is None
    plain_tokenizer = tokenizer_options.tokenizer
    with_boundaries = _choose_boundaries(
        boundaries, no_boundaries, default=is_default and not plain_tokenizer.is_rows
    )
    tokenizer = replace(plain_tokenizer, boundaries=with_boundaries)
    columns: dict[str, Any] = {
        "text_column": text_column,
        "skip_bad_rows": skip_bad_rows,
        **dialect.arguments,
    }
    blocklist = block_options.blocklist
    blocked_count = 0
    provenance = Provenance()
    choice: dict[str, Any]  # which n-grams: order and size, or a list
    make_vocabulary: Callable[..., Vocabulary]
    if listed is None:
        chosen_orders = [1] if is_default and tokenizer.is_rows else _parse_orders(order, orders)
        sizes = 0 if size is None and tokenizer.is_rows else _parse_sizes(size, chosen_orders)
        choice = {"order": chosen_orders, "size": sizes}
        make_vocabulary = partial(
            Vocabulary.from_sources, **choice, tokenizer=tokenizer, memory=request.memory
        )
    else:
        if order is not None or orders is not None or size is not None:
            raise UsageError(
                "--list: its n-grams are counted as they are; leave --order, --orders and --size"
                " out."
            )
        is_stated = tokenizer_options.is_given or boundaries
        ngrams, tokenizer = read_ngram_list(listed, tokenizer if is_stated else None)
        provenance = ngram_list_provenance(listed)
        choice = {"ngrams": ngrams}
        make_vocabulary = partial(Vocabulary.from_list_and_sources, ngrams, tokenizer=tokenizer)
    public_model: PublicModel | None = None
    if on_spark:
        unblocked, bad_rows = engines.make_vocabulary_on_spark(
            sources, engine_options.master, tokenizer=tokenizer, **choice, **columns
        )
        vocabulary = unblocked.with_provenance(provenance).block(blocklist)
        blocked_count = len(unblocked) - len(vocabulary)
    else:

        def make_without_blocked(opened: "Mapping[str, OpenSource]") -> "Vocabulary":
            nonlocal blocked_count
            unblocked = make_vocabulary(sources=opened)
            vocabulary = unblocked.with_provenance(provenance).block(blocklist)
            blocked_count = len(unblocked) - len(vocabulary)
            return vocabulary

        vocabulary, public_model, bad_rows = _make_locally(
            sources, make_without_blocked, request, tokenizer, **columns
        )
    _save(vocabulary, output, public_model, request.output, force=force)
    if listed:
        _warn_of_repeated_ngrams(vocabulary, listed)
    if vocabulary.unreachable_count:
        console.print_note(
            f"warning: {vocabulary.unreachable_count} n-grams have capitals, and text is"
            " lower-cased: they are never found; --keep-case keeps capitals."
        )
    report = {
        "output": str(output),
        **_describe(vocabulary),
        **({"blocked_ngrams": blocked_count} if json or blocked_count else {}),
        "bad_rows_skipped": bad_rows,
        **_describe_ingredients(vocabulary, json=json),
    }
    if public_model:
        report |= {"model": str(request.output), "model_ngrams": public_model.sizes}
    if json:  # people see these in lines of their own
        report["sources"] = named_inputs.source_sizes(vocabulary)
        report["given_twice"] = find_identical_sources(vocabulary.sources)
        report["not_read"] = list_unread(
            [path for path in source_paths if is_text_path(path, text_column)]
        )
    console.print_summary(
        _vocabulary_sentences(vocabulary, report), report, json=json, verbose=verbose
    )
    if not json:
        named_inputs.print_sources(vocabulary)


def _choose_boundaries(wanted: bool, unwanted: bool, *, default: bool) -> bool:
    """Return whether n-grams have boundaries, as --boundaries and --no-boundaries say."""
    if wanted and unwanted:
        raise UsageError("--boundaries and --no-boundaries: give one of them.")
    return wanted or (default and not unwanted)


def _model_obstacle(paths: Sequence[str], text_column: str, *, on_spark: bool) -> str | None:
    """Return why no public model can be made by default; None if one can."""
    from bayesgram.public.sources import is_text_path

    if on_spark:
        return "it is made on this machine and not on Spark"
    other = [path for path in paths if not is_text_path(path, text_column)]
    return f"{other[0]} is not text" if other else None


def _vocabulary_sentences(vocabulary: "Vocabulary", report: "Mapping[str, Any]") -> list[str]:
    """Say what `vocab` wrote, to a person who sees this for the first time."""
    from bayesgram.releases.card_sections import order_name

    is_rows = vocabulary.tokenizer.is_rows
    by_order = [
        f"{len(part):,} {order_name(part.order, is_rows=is_rows)}"
        for _, part in vocabulary.by_order
    ]
    sentences = [f"Wrote {report['output']}: {console.join_words(by_order)} of public text."]
    if not len(vocabulary):
        sentences = [
            f"Wrote {report['output']}: a vocabulary that lists no rows yet.",
            "Find rows that many people write with `bayesgram discover`.",
        ]
    if report.get("blocked_ngrams"):
        sentences.append(f"{report['blocked_ngrams']:,} n-grams were left out by the blocklist.")
    if "model" in report:
        by_source = [
            f"{sum(sizes):,} n-grams" + (f" ({name})" if len(report["model_ngrams"]) > 1 else "")
            for name, sizes in report["model_ngrams"].items()
        ]
        sentences.append(
            f"Wrote {report['model']}: a language model of this text, with"
            f" {console.join_words(by_source)}."
        )
    if "made_from" in report:
        sentences.append(f"Made from {report['made_from']}. Label: {report['label']}.")
    return [*sentences, *console.skipped_sentences(report["bad_rows_skipped"], "{:,}".format)]


def _describe(vocabulary: "Vocabulary") -> dict[str, Any]:
    orders = [part.order for _, part in vocabulary.by_order]
    return {
        "ngrams": len(vocabulary),
        "order": vocabulary.order if len(orders) == 1 else orders,
        "tokenizer": vocabulary.tokenizer.name,
        "fingerprint": vocabulary.fingerprint,
    }


def _describe_ingredients(vocabulary: "Vocabulary", *, json: bool) -> dict[str, Any]:
    """Return what a vocabulary was made from beside public text, and its label; or nothing."""
    if not vocabulary.ingredients:
        return {}
    names = [str(ingredient) for ingredient in vocabulary.ingredients]
    return {"made_from": names if json else "; ".join(names), "label": vocabulary.label}


def _make_locally(
    sources: dict[str, list[str]],
    make_vocabulary: "Callable[[Mapping[str, OpenSource]], Vocabulary]",
    request: ModelRequest,
    tokenizer: "Tokenizer",
    *,
    text_column: str,
    **columns: Any,  # noqa: ANN401 - those of read_records
) -> "tuple[Vocabulary, PublicModel | None, dict[str, int]]":
    """Make the vocabulary and the public model on this machine.

    Returns:
        Both, and how many rows were skipped by the reason.
    """
    from bayesgram.public.sources import open_sources, require_text

    with_model = request.output is not None
    then = "Making the model" if with_model else "Choosing n-grams"
    with console.reading("Reading public text", then=then) as bar:
        read_records = partial(
            bar.records,
            times=2 if with_model else 1,
            text_column=text_column,
            user_column=None,
            **columns,
            warn_about_users=True,
            require_rows=len(sources) == 1,
        )
        opened = open_sources(sources, tokenizer, text_column, read_records)
        if with_model:
            require_text(opened)  # refuses sources that are no text
        vocabulary = make_vocabulary(opened)
        public_model = request.make(vocabulary, opened)
    return vocabulary, public_model, named_inputs.skipped_rows(opened.values())


def _save(
    vocabulary: "Vocabulary",
    output: Path,
    public_model: "PublicModel | None",
    model_output: Path | None,
    *,
    force: bool,
) -> None:
    """Write both before either takes its place; then the model does, and the vocabulary."""
    if public_model is None or model_output is None:
        vocabulary.save(output, force=force)
        return
    from bayesgram.io.atomic import write_folder_atomically, written_paths
    from bayesgram.public.public_model import CONTENTS

    written_before = len(written_paths)
    try:
        with ExitStack() as unfinished:
            unfinished.enter_context(vocabulary.save_on_success(output, force=force))
            model_folder = unfinished.enter_context(
                write_folder_atomically(
                    model_output, contents=CONTENTS, force=force, parameter=Argument("model")
                )
            )
            public_model.write(model_folder)
    except BayesgramError as error:
        if len(written_paths) > written_before and written_paths[-1].resolve() != output.resolve():
            raise type(error)(
                *error.parts,
                f" The public model {model_output} is there, without its vocabulary.",
            ) from error
        raise


def _parse_orders(order: int | None, orders: str | None) -> list[int]:
    """Return the one order of --order, or those of --orders."""
    if order is not None and orders is not None:
        raise UsageError("--order and --orders: give one of them.")
    if orders is None:
        from bayesgram.public.vocabulary import DEFAULT_ORDERS

        return [*DEFAULT_ORDERS] if order is None else [order]
    from bayesgram.text.ngrams import check_order

    return [
        check_order(number, name="orders")
        for number in parse_list("--orders", orders, parse_int, "1,2,3")
    ]


def _parse_sizes(size: str | None, orders: Sequence[int]) -> int | list[int]:
    """Return one size, or one for each order; refuse 1,000 for a thousand."""
    if size is None:
        from bayesgram.public.vocabulary import DEFAULT_SIZE

        return DEFAULT_SIZE
    sizes = parse_list("--size", size, parse_int, "50k,300k")
    digits = options.remove_separators(size)
    if digits and len(sizes) != len(set(orders)):
        raise UsageError(
            f"--size {size}: commas separate the sizes of several orders;"
            f" {options.USE_NO_SEPARATORS} ({digits})."
        )
    return sizes[0] if len(sizes) == 1 else sizes


def _warn_of_repeated_ngrams(vocabulary: "Vocabulary", path: Path) -> None:
    if vocabulary.matcher.repeated:
        console.print_note(
            f"warning: {vocabulary.matcher.repeated} n-grams stand in {path} more than once; only"
            " the first is counted."
        )


# --- count ---

# Of people's n-grams: where the vocabulary covers less, `count` says what to do about it.
LOW_COVERAGE = 0.3


def count(
    private: options.Private,
    vocab: options.Vocab,
    output: options.Output,
    user_column: options.UserColumn = "user",
    text_column: options.TextColumn = "text",
    dialect: options.DialectOptions = options.READ_AS_USUAL,
    by: options.By = None,
    segments: options.SegmentNames = None,
    other: options.Other = False,
    tokenizer_options: options.TokenizerOptions = options.DEFAULTS,
    skip_bad_rows: options.SkipBadRows = False,
    allow_public: Annotated[
        bool,
        typer.Option(
            "--allow-public",
            help="Only warn, and go on, if many private rows were rows of the public text.",
        ),
    ] = False,
    engine_options: options.EngineOptions = options.LOCAL,
    force: options.Force = False,
    json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Count the vocabulary's n-grams in every user's PRIVATE text. The result is private.

    The command also says how much the vocabulary covers: the share of all n-grams that people
    wrote, repeats included, which the vocabulary lists.

    --by counts by country, language or another column. `bayesgram release` then publishes each
    segment and all people together, in one budget. A person may be in several segments. The list of
    segments is public: give it with --segments, it is not read from the data.

    --tokenizer is needed only for a vocabulary from elsewhere, which does not say how its text was
    cut.

    The command stops if many private rows were public text of the vocabulary (vocab.parquet.rows
    has their hashes): such a vocabulary is not public.

    From a database: bayesgram count 'duckdb:chat.duckdb?table=messages' --vocab vocab.parquet
    -o counts. Passwords come from the environment (bayesgram docs postgresql).

    Example: bayesgram count messages/*.parquet --vocab vocab.parquet --user-column user
    --text-column text -o counts
    """
    from bayesgram.io import list_unread
    from bayesgram.io.atomic import check_writable
    from bayesgram.private.counts_io import FOLDER_FILES
    from bayesgram.private.streaming import count_to_folder
    from bayesgram.public.vocabulary import Vocabulary

    check_writable(output, force=force, contents=FOLDER_FILES, inputs=[*private, vocab])
    memory_bytes = engine_options.memory_bytes
    engine = engine_options.engine
    master = engine_options.master
    checked_segments = _parse_segments(by, segments, other=other)
    if checked_segments is not None:
        engines.refuse_segments_on_spark(engine, master, checked_segments.by)
    vocabulary = Vocabulary.load(vocab, tokenizer=tokenizer_options.tokenizer_if_given)
    _warn_of_repeated_ngrams(vocabulary, vocab)
    if vocabulary.unreachable_count:
        console.print_note(
            f"warning: {vocabulary.unreachable_count} n-grams of {vocab} have capitals, and the"
            " text is lower-cased: they are never found; --keep-case keeps capitals."
        )
    columns: dict[str, Any] = {
        "user_column": user_column,
        "text_column": text_column,
        "skip_bad_rows": skip_bad_rows,
        **dialect.arguments,
    }
    if engines.is_spark(engine, master):
        summary, bad_rows = engines.count_to_folder_on_spark(
            private, vocabulary, output, master, force=force, allow_public=allow_public, **columns
        )
    else:
        with console.reading("Counting private text", then="Merging counts") as bar:
            records = bar.records(private, require_rows=True, segments=checked_segments, **columns)
            summary = count_to_folder(
                records,
                vocabulary,
                output,
                memory=memory_bytes,
                force=force,
                segments=checked_segments,
                allow_public=allow_public,
            )
        bad_rows = records.bad_rows
    if not summary.nonzeros:
        console.print_note(
            f"warning: no n-gram of {vocab} was found in any text. The counts are empty: are text,"
            " column and vocabulary in one language, and cut alike?"
        )
    report: dict[str, Any] = {
        "output": str(output),
        "users": console.round_private(summary.users),
        "nonzeros": console.round_private(summary.nonzeros),
        "users_without_ngrams": console.round_private(summary.users_without_ngrams),
        "rows_without_text": console.round_private(bad_rows.without_text),
        "rounded": console.ROUNDING,
        "coverage": {order: round(share, 2) for order, share in summary.coverage.items()},
        "not_read": list_unread(private),
        "any_ngram_found": summary.nonzeros > 0,
        "public_rows_checked": vocabulary.public_rows is not None,
    }
    if checked_segments is not None:
        report["segments"] = list(checked_segments.all_names)
    report["bad_rows_skipped"] = bad_rows.by_reason
    report["note"] = "private: keep this folder where the text is kept"
    is_rows = vocabulary.tokenizer.is_rows
    users = console.format_private(summary.users)
    sentences = [
        f"Wrote {output}: the counts of {users} users. They are private: keep them with the text.",
        f"The vocabulary covers {_format_coverage(summary.coverage, is_rows=is_rows)}.",
    ]
    if checked_segments is not None:
        sentences.append(f"Counted by segment: {_format_segments(checked_segments)}.")
    without_ngrams = console.format_private(summary.users_without_ngrams)
    sentences.append(f"Users who wrote none of its n-grams: {without_ngrams}.")
    without_text = console.format_private(bad_rows.without_text)
    sentences.append(f"Rows without text: {without_text}.")
    sentences += console.skipped_sentences(bad_rows.by_reason, console.format_private)
    console.print_summary(sentences, report, json=json, verbose=verbose)
    low = {order: share for order, share in summary.coverage.items() if share < LOW_COVERAGE}
    if low and summary.nonzeros:
        console.print_note(
            f"note: {vocab} covers {_format_coverage(low, is_rows=is_rows)}. To cover more, make a"
            " larger list (`bayesgram vocab --size`), use public text that is nearer to theirs, or"
            " add n-grams with `bayesgram discover`."
        )


def _format_coverage(coverage: "Mapping[int, float]", *, is_rows: bool = False) -> str:
    """Return shares of orders in words.

    >>> _format_coverage({1: 0.914, 2: 0.17})
    '91% of words and 17% of bigrams that people wrote'
    >>> _format_coverage({})
    'nothing: people wrote no n-gram of these orders'
    """
    from bayesgram.releases.card_sections import order_name

    if not coverage:
        return "nothing: people wrote no n-gram of these orders"
    shares = [
        f"{share:.0%} of {order_name(order, is_rows=is_rows)}" for order, share in coverage.items()
    ]
    return f"{console.join_words(shares)} that people wrote"


def _parse_segments(by: str | None, names: str | None, *, other: bool) -> "Segments | None":
    """Return the segments that --by, --segments and --other say."""
    from bayesgram.io.segments import parse_names
    from bayesgram.private.counts import parse_segments

    return parse_segments(by, None if names is None else parse_names(names), other=other)


def _format_segments(segments: "Segments") -> str:
    from bayesgram.io.segments import format_names

    return f"{len(segments)} by {segments.by!r}: {format_names(segments.all_names)}"
