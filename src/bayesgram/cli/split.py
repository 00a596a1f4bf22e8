"""bayesgram split: hold out people for evaluation."""

from pathlib import Path
from typing import Annotated, Any

import typer

from bayesgram.cli import console, options
from bayesgram.cli.options import parse_int


def split(
    private: options.Private,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help="The Parquet file for the people to release from.",
            show_default=False,
        ),
    ],
    held_out_output: Annotated[
        Path,
        typer.Option(help="The Parquet file for the people who are held out.", show_default=False),
    ],
    held_out: Annotated[
        str,
        typer.Option(help="The share of the people to hold out, such as 10% or 0.1."),
    ] = "10%",
    user_column: options.UserColumn = "user",
    text_column: options.TextColumn = "text",
    dialect: options.DialectOptions = options.READ_AS_USUAL,
    seed: Annotated[
        int, typer.Option(parser=parse_int, help="Another seed holds out other people.")
    ] = 0,
    skip_bad_rows: options.SkipBadRows = False,
    force: options.Force = False,
    json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Hold out people of PRIVATE text for evaluation. Both files are private.

    All rows of a person go to one file. Which one follows from a hash of the user id, so the same
    people are held out again by a later split with the same seed and share. The files have two
    columns: user ids and text.

    Example: bayesgram split messages.parquet --held-out 10% -o train.parquet --held-out-output
    held-out.parquet
    """
    from bayesgram.private.split import check_outputs, check_share, split_records

    share = check_share(options.parse_share("--held-out", held_out))
    check_outputs(output, held_out_output, force=force, inputs=private)
    with console.reading("Splitting private text", then="Writing") as bar:
        records = bar.records(
            private,
            user_column=user_column,
            text_column=text_column,
            skip_bad_rows=skip_bad_rows,
            require_rows=True,
            **dialect.arguments,
        )
        summary = split_records(
            records,
            output,
            held_out_output,
            held_out=share,
            columns=(user_column, text_column),
            seed=seed,
            force=force,
        )
    report: dict[str, Any] = {
        "output": str(output),
        "held_out_output": str(held_out_output),
        "rows": console.round_private(summary.train_rows),
        "held_out_rows": console.round_private(summary.held_out_rows),
        "rounded": console.ROUNDING,
        "bad_rows_skipped": records.bad_rows.by_reason,
        "note": "private: keep both files where the text is kept",
    }
    train_rows = console.format_private(summary.train_rows)
    held_out_rows = console.format_private(summary.held_out_rows)
    sentences = [
        f"Wrote {output}: people to release from, {train_rows} rows.",
        f"Wrote {held_out_output}: people who are held out, {held_out_rows} rows.",
        "Both files are private: keep them where the text is kept.",
        *console.skipped_sentences(records.bad_rows.by_reason, console.format_private),
    ]
    console.print_summary(sentences, report, json=json, verbose=verbose)
