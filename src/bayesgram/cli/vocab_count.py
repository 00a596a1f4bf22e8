"""bayesgram vocab and bayesgram count: from text to counts."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from bayesgram.cli import console, named_inputs, options, spark
from bayesgram.cli.options import PLAIN, separated, several, whole
from bayesgram.errors import Argument, BayesgramError, UsageError

if TYPE_CHECKING:
    from bayesgram.io.segments import Segments
    from bayesgram.public.public_model import PublicModel
    from bayesgram.public.sources import Opened
    from bayesgram.public.vocabulary import Vocabulary
    from bayesgram.text.tokenizer import Tokenizer

ORDER, SIZE = 3, 50_000
LONGEST_SORTED, SHORT_TEXT = (
    3,
    1 << 22,
)  # words, and bytes of files: n-grams that are sorted (`text.sorted_windows`)

Make: TypeAlias = "Callable[..., Vocabulary]"  # from sources that are open


@dataclass(frozen=True)
class ModelRequest:
    """The public model that is to stand beside a vocabulary, if any."""

    output: Path | None
    order: int | None
    size: str | None
    memory: int

    def check(self, vocabulary: Path, *, force: bool, inputs: list[str], on_spark: bool) -> None:
        """Refuse what can't be made, before any text is read."""
        if self.output is None:
            if self.order is not None or self.size is not None:
                raise UsageError(
                    "--model-order and --model-size: are for a public model; add --model PATH."
                )
            return
        from bayesgram.public.public_model import ORDER, check_order, check_place

        if on_spark:
            raise UsageError(
                "--model: is made on this machine; leave --engine spark or --model out."
            )
        if self.output.resolve() == vocabulary.resolve():
            raise UsageError(
                f"--model {self.output}: is the --output too; give the model a path of its own."
            )
        check_order(ORDER if self.order is None else self.order)
        _ = self.limit  # refused now if it is none
        check_place(self.output, force=force, inputs=inputs)

    def made(
        self, vocabulary: "Vocabulary", opened: "Mapping[str, Opened]"
    ) -> "PublicModel | None":
        """The model of a vocabulary's sources."""
        if self.output is None:
            return None
        from bayesgram.public.public_model import ORDER, PublicModel

        order = ORDER if self.order is None else self.order
        return PublicModel.from_sources(
            vocabulary, opened, order=order, memory=self.memory, **self.limit
        )

    @property
    def limit(self) -> dict[str, int]:
        """A number of n-grams, or of bytes."""
        if self.size is None:
            return {}
        return (
            {"size": int(self.size)}
            if self.size.isdecimal()
            else {"max_size": options.size("model_size", self.size)}
        )


def vocab(
    public: options.Public,
    output: options.Output,
    order: Annotated[
        int | None, typer.Option(help="Tokens in an n-gram, 1 to 6.", show_default="3")
    ] = None,
    orders: Annotated[
        str | None,
        typer.Option(
            help="Several orders in one vocabulary, such as 1,2,3: for language models.",
            show_default=False,
        ),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(
            help="How many n-grams to keep, of each order, such as 50000 or 50000,300000,200000.",
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
        bool, typer.Option("--boundaries", help="N-grams may begin with <s> and end with </s>.")
    ] = False,
    model: Annotated[
        Path | None,
        typer.Option(
            help="Write a public model here: a language model of each source's text.",
            show_default=False,
        ),
    ] = None,
    model_order: Annotated[
        int | None,
        typer.Option(help="Words in the longest n-grams of --model, 2 to 6.", show_default="3"),
    ] = None,
    model_size: Annotated[
        str | None,
        typer.Option(
            help="How many n-grams --model keeps for each source, such as 500000, or how large it is, such as 10MB.",
            show_default="all",
        ),
    ] = None,
    text_column: options.TextColumn = "text",
    cut: options.Cut = options.AS_USUAL,
    skip_bad_rows: options.SkipBadRows = False,
    work: options.Work = options.HERE,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Make a vocabulary: the most frequent n-grams of PUBLIC text.

    Several sources have names (wiki=folder talk=lines.txt) and weigh alike: n-grams are chosen by the mean of their
    frequencies, and the counts of each source are kept. A source is text, an ARPA file, a release, or a vocabulary.

    OUTPUT.rows, beside the output, has hashes of the public rows: `count` stops if private text was among them.

    --model keeps what the list of n-grams leaves out: all n-grams of each source (text only), as a language model over
    the words of the vocabulary.

    Example: bayesgram vocab wiki/*.txt.gz --order 3 --size 50000 -o vocab.parquet
    """
    from bayesgram.io import left_out
    from bayesgram.io.atomic import check_writable
    from bayesgram.public.mixture import alike
    from bayesgram.public.public_rows import check_rows_place
    from bayesgram.public.sources import is_text
    from bayesgram.public.vocabulary import Vocabulary, list_provenance, read_list
    from bayesgram.releases.provenance import Provenance

    given = named_inputs.by_name(public)
    inputs = [*named_inputs.paths(given), *([str(listed)] if listed else [])]
    check_writable(output, force=force, inputs=inputs)
    check_rows_place(output)
    on_spark = spark.chosen(work.engine, work.master)
    request = ModelRequest(model, model_order, model_size, work.room)
    request.check(output, force=force, inputs=inputs, on_spark=on_spark)
    tokenizer = replace(cut.named, boundaries=boundaries)
    rows: dict[str, Any] = {"text_column": text_column, "skip_bad_rows": skip_bad_rows}
    provenance = Provenance()
    if listed is None:
        chosen = _orders(order, orders)
        choice: dict[str, Any] = {"order": chosen, "size": _sizes(size, chosen)}
        make: Make = partial(
            Vocabulary.from_sources, **choice, tokenizer=tokenizer, memory=request.memory
        )
    else:
        if order is not None or orders is not None or size is not None:
            raise UsageError(
                "--list: its n-grams are counted as they are; leave --order, --orders and --size out."
            )
        stated = cut.stated is not None or boundaries
        ngrams, tokenizer = read_list(listed, tokenizer if stated else None)
        provenance = list_provenance(listed)
        counted, choice = (
            partial(Vocabulary.of_counted_list, ngrams, tokenizer=tokenizer),
            {"ngrams": ngrams},
        )
        make = lambda sources: counted(sources=sources).made_with(provenance)  # noqa: E731
    modelled: PublicModel | None = None
    if on_spark:
        made, bad_rows = spark.vocabulary(given, work.master, tokenizer=tokenizer, **choice, **rows)
    else:
        made, modelled, bad_rows = _made(given, make, request, tokenizer, **rows)
    made = made.made_with(provenance)
    _save(made, output, modelled, request.output, force=force)
    if listed and made.matcher.repeated:
        console.say(
            f"warning: {made.matcher.repeated} n-grams stand in {listed} more than once; only the first is counted."
        )
    if made.unreachable:
        console.say(
            f"warning: {made.unreachable} n-grams have capitals, and text is lower-cased: they are never found;"
            " --keep-case keeps capitals."
        )
    for_machines = {  # said in lines of their own for people
        "sources": named_inputs.told(made),
        "given_twice": alike(made.sources),
        "not_read": left_out(
            [path for path in named_inputs.paths(given) if is_text(path, text_column)]
        ),
    }
    console.report(
        {
            "output": str(output),
            "ngrams": len(made),
            "order": made.order if len(made.parts) == 1 else [part.order for _, part in made.parts],
            "tokenizer": made.tokenizer.name,
            "fingerprint": made.fingerprint,
            "bad_rows_skipped": bad_rows,
            **_provenance(made, json=json),
            **_told(modelled, request.output),
            **(for_machines if json else {}),
        },
        json=json,
    )
    if not json:
        named_inputs.show(made)


def _provenance(made: "Vocabulary", *, json: bool) -> dict[str, Any]:
    """What it was made from beside public text, and its label; nothing where that is public text alone."""
    if not made.ingredients:
        return {}
    named = [str(each) for each in made.ingredients]
    return {"made_from": named if json else "; ".join(named), "label": made.label}


def _made(
    given: dict[str, list[str]],
    make: "Make",
    request: ModelRequest,
    tokenizer: "Tokenizer",
    *,
    text_column: str,
    skip_bad_rows: bool,
) -> "tuple[Vocabulary, PublicModel | None, dict[str, int]]":
    """The vocabulary and the public model, made on this machine, and why rows were skipped."""
    from bayesgram.public.sources import open_sources, text_of

    rows: dict[str, Any] = {
        "text_column": text_column,
        "user_column": None,
        "skip_bad_rows": skip_bad_rows,
    }
    rows["warn_of_users"] = True
    then = "Choosing n-grams" if request.output is None else "Making the model"
    with console.reading("Reading public text", then=then) as bar:
        times = 1 if request.output is None else 2
        read = partial(bar.records, **rows, times=times, refuse_nothing=len(given) == 1)
        opened = open_sources(given, tokenizer, text_column, read)
        if request.output is not None:
            text_of(opened)
        made = make(sources=opened)
        modelled = request.made(made, opened)
    return made, modelled, named_inputs.skipped_rows(opened.values())


def _save(
    made: "Vocabulary",
    output: Path,
    modelled: "PublicModel | None",
    model_output: Path | None,
    *,
    force: bool,
) -> None:
    """Both are written before either takes its place; then the model does, and the vocabulary."""
    if modelled is None or model_output is None:
        made.save(output, force=force)
        return
    from bayesgram.io.atomic import published, write_folder_atomically
    from bayesgram.public.public_model import CONTENTS

    before = len(published)
    try:
        with ExitStack() as places:
            places.enter_context(made.staged(output, force=force))
            modelled.write(
                places.enter_context(
                    write_folder_atomically(
                        model_output, contents=CONTENTS, force=force, option=Argument("model")
                    )
                )
            )
    except BayesgramError as error:
        if len(published) > before and published[-1].resolve() != output.resolve():
            raise type(error)(
                f"{error} The public model {model_output} is there, without its vocabulary."
            ) from error
        raise


def _told(modelled: "PublicModel | None", model_output: Path | None) -> dict[str, Any]:
    """What there is of a public model."""
    return {"model": str(model_output), "model_ngrams": modelled.sizes} if modelled else {}


def _orders(order: int | None, orders: str | None) -> list[int]:
    """One order, or several."""
    if order is not None and orders is not None:
        raise UsageError("--order and --orders: give one of them.")
    if orders is None:
        return [ORDER if order is None else order]
    from bayesgram.text.ngrams import check_order

    return [check_order(each, name="orders") for each in several("orders", orders, whole, "1,2,3")]


def _sizes(size: str | None, orders: Sequence[int]) -> int | list[int]:
    """One size, or one for each order; 1,000 is no way to write a thousand."""
    if size is None:
        return SIZE
    found, digits = several("size", size, whole, "50000,300000"), separated(size)
    if digits and len(found) != len(set(orders)):
        raise UsageError(
            f"size={size}: commas separate the sizes of several orders; {PLAIN} ({digits})."
        )
    return found[0] if len(found) == 1 else found


def count(
    private: options.Private,
    vocab: options.Vocab,
    output: options.Output,
    user_column: options.UserColumn = "user",
    text_column: options.TextColumn = "text",
    by: options.By = None,
    segments: options.SegmentNames = None,
    other: options.Other = False,
    cut: options.Cut = options.AS_USUAL,
    skip_bad_rows: options.SkipBadRows = False,
    allow_public: Annotated[
        bool,
        typer.Option(
            "--allow-public",
            help="Go on where many private rows were rows of the public text, with a warning.",
        ),
    ] = False,
    work: options.Work = options.HERE,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Count the vocabulary's n-grams in every user's PRIVATE text. The result is private.

    --by counts by country, language or the like, for `release` to publish each and all people in one budget. A person
    may be in several segments. The list of them is public: name it, don't read it from the data.

    --tokenizer is needed only for a vocabulary made elsewhere, which doesn't say how its text was cut.

    Private text that was given to `vocab` as public text is refused: vocab.parquet.rows knows its rows.

    Example: bayesgram count messages/*.parquet --vocab vocab.parquet --user-column user --text-column text -o counts
    """
    from bayesgram.io import left_out
    from bayesgram.io.atomic import check_writable
    from bayesgram.private.counts_io import CONTENTS
    from bayesgram.private.streaming import count_to_folder
    from bayesgram.public.vocabulary import Vocabulary

    check_writable(output, force=force, contents=CONTENTS, inputs=[*private, vocab])
    room, listed = work.room, _segments(by, segments, other=other)
    if listed is not None:
        spark.refuse_segments(work.engine, work.master, listed.by)
    vocabulary = Vocabulary.load(vocab, tokenizer=cut.stated)
    if vocabulary.matcher.repeated:
        console.say(
            f"warning: {vocabulary.matcher.repeated} n-grams stand in {vocab} more than once;"
            " only the first is counted."
        )
    if vocabulary.unreachable:
        console.say(
            f"warning: {vocabulary.unreachable} n-grams of {vocab} have capitals, and the text is lower-cased:"
            " they are never found; --keep-case keeps capitals."
        )
    rows: dict[str, Any] = {
        "user_column": user_column,
        "text_column": text_column,
        "skip_bad_rows": skip_bad_rows,
    }
    if spark.chosen(work.engine, work.master):
        counted, bad_rows = spark.count_to_folder(
            private, vocabulary, output, work.master, force=force, allow_public=allow_public, **rows
        )
    else:
        with console.reading("Counting private text", then="Merging counts") as bar:
            records = bar.records(private, refuse_nothing=True, segments=listed, **rows)
            counted = count_to_folder(
                records,
                vocabulary,
                output,
                memory=room,
                force=force,
                segments=listed,
                allow_public=allow_public,
            )
        bad_rows = records.bad_rows.by_reason
    if not counted.nonzeros:
        console.say(
            f"warning: no n-gram of {vocab} was found in any text. The counts are empty: are text, column and"
            " vocabulary in one language, and cut alike?"
        )
    sizes = {"users": counted.users, "nonzeros": counted.nonzeros}
    told: dict[str, Any] = {name: console.about(size) for name, size in sizes.items()}
    if json:
        told = {
            **{name: console.rounded(size) for name, size in sizes.items()},
            "rounded": console.ROUNDING,
        }
        told |= {"not_read": left_out(private), "any_ngram_found": counted.nonzeros > 0}
        told |= {"public_rows_checked": vocabulary.public_rows is not None}
    console.report(
        {
            "output": str(output),
            **told,
            **(
                {}
                if listed is None
                else {"segments": list(listed.all_names) if json else _listed(listed)}
            ),
            "bad_rows_skipped": bad_rows,
            "note": "private: keep this folder where the text is kept",
        },
        json=json,
    )


def _segments(by: str | None, names: str | None, *, other: bool) -> "Segments | None":
    """What --by, --segments and --other say."""
    from bayesgram.io.segments import read_names
    from bayesgram.private.counts import segments_asked

    return segments_asked(by, None if names is None else read_names(names), other=other)


def _listed(segments: "Segments") -> str:
    from bayesgram.io.segments import shown

    return f"{len(segments)} by {segments.by!r}: {shown(segments.all_names)}"
