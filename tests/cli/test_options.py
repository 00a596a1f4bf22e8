"""Values as people type them: numbers, places and files that are not what an option takes."""

import json
import math

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

import bayesgram as bg
from bayesgram.cli import options
from bayesgram.cli.app import COMMANDS, command_line
from helpers import fish_text
from helpers.commands import bayesgram, expect_refusal, run_in_process

RELEASE = ("release", "counts", "--vocab", "vocab.parquet", "-o", "x")
PLAN = ("plan", "--vocab", "vocab.parquet")


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """Public text, private messages by country, a vocabulary, counts, a release and a ledger."""
    folder = tmp_path_factory.mktemp("typed")
    (folder / "public.txt").write_text(fish_text.PUBLIC)
    vocabulary = bg.Vocabulary.from_public(folder / "public.txt", order=(1, 2), size=10)
    vocabulary.save(folder / "vocab.parquet")
    people = pa.table(
        {"user": ["ann", "bob"], "text": ["the red fish", "a blue fish"], "country": ["de", "fr"]}
    )
    pq.write_table(people, folder / "messages.parquet")
    counts = bg.count(people, vocabulary)
    bg.save_counts(counts, vocabulary, folder / "counts")
    bg.release(counts, vocabulary, epsilon=1).save(folder / "out")
    bg.Ledger.create(folder / "a.ledger", population="p", budget=bg.Budget(1, 1e-6))
    return folder


def unread(*arguments, cwd):
    """What the reader of an option says."""
    with pytest.raises(typer.BadParameter) as caught:
        run_in_process(*arguments, cwd=cwd)
    assert (caught.value.exit_code, caught.value.ctx.info_name) == (
        2,
        caught.value.ctx.command.name,
    )
    assert not (cwd / "x").exists()
    return caught.value.format_message()


DECIMAL = "is no number; a decimal is written with a point:"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((*RELEASE, "--epsilon", "0,5"), f"'--epsilon': '0,5' {DECIMAL} 0.5."),
        (
            ("paper", "tune", "counts", "--vocab", "v", "--epsilon", "0,3"),
            f"'--epsilon': '0,3' {DECIMAL} 0.3.",
        ),
        ((*PLAN, "--users", "1e5", "--kl", "-0,05"), f"'--kl': '-0,05' {DECIMAL} -0.05."),
        ((*RELEASE, "--delta", "1,5e-7"), f"'--delta': '1,5e-7' {DECIMAL} 1.5e-7."),
        ((*RELEASE, "--delta", "10^-7"), "'--delta': '10^-7' is no number; write 1e-7."),
        ((*RELEASE, "--epsilon", ""), "'--epsilon': '' is no number; give one such as 0.5."),
        (
            (*PLAN, "--users", 1000, "--ngrams-a-user", "1,000"),
            (
                "'--ngrams-a-user': '1,000' is no number; a number is written without separators: 1000 (or 1.000, if the"
                " comma is a decimal point)."
            ),
        ),
        (
            ("audit", "counts", "--vocab", "v", "--confidence", "99%"),
            "'--confidence': '99%' is no number; a share is written as a decimal: 0.99.",
        ),
        ((*RELEASE, "--seed", "1,5"), "'--seed': '1,5' is no whole number; give one such as 3."),
        ((*RELEASE, "--seed", "nan"), "'--seed': 'nan' is no whole number; give one such as 3."),
        (
            ("demo", "--users", "1.000.000"),
            "'--users': '1.000.000' is no whole number; a number is written without separators: 1000000.",
        ),
        (
            ("vocab", "public.txt", "-o", "x", "--order", "2,3"),
            "'--order': '2,3' is no whole number; give one such as 3. Several are --orders 2,3.",
        ),
        (
            ("compare", "out", "out", "--top", "0"),
            "'--top': 0 is out of range; give a number from 1.",
        ),
    ],
)
def test_numbers_that_are_none(work, arguments, told):
    assert unread(*arguments, cwd=work) == f"Invalid value for {told}"


def test_numbers_that_are_none_with_the_real_command(work):
    done = bayesgram(*RELEASE, "--epsilon", "0,5", "--json", cwd=work)
    assert (done.returncode, json.loads(done.stdout)["exit_code"]) == (2, 2)
    assert "0.5" in json.loads(done.stdout)["error"]


@given(st.floats() | st.integers(), st.integers(-(10**25), 10**25))
def test_numbers_are_read_as_python_writes_them(real, whole):
    for text in (repr(real), f"{real:g}", f"{real:.3e}"):
        read = options.parse_float(text)
        assert read == float(text) or math.isnan(read)
    assert options.parse_int(str(whole)) == options.parse_int(f" {whole:_} ") == whole


@pytest.mark.parametrize(
    ("text", "value"), [("1e6", 10**6), ("1.5E+3", 1500), ("0e5", 0), ("25e18", 25 * 10**18)]
)
def test_a_whole_number_may_have_an_exponent(text, value):
    assert options.parse_int(text) == value
    assert type(options.parse_int(text)) is int


@pytest.mark.parametrize(
    "text", ["1.5", "2.0", "1.000", "1e-3", "1.5e0", "1e99", "1e", "e5", "inf", "0x10", "True", "½"]
)
def test_what_is_no_whole_number(text):
    with pytest.raises(options.NotANumberError, match="is no whole number; "):
        options.parse_int(text)


@given(st.text("0123456789,.'%^*+-eE_ \u202fx", max_size=12))
def test_any_text_is_a_number_or_has_a_next_step(text):
    for read in (options.parse_int, options.parse_float):
        try:
            assert isinstance(read(text), int | float)
        except options.NotANumberError as error:
            assert str(error).startswith(f"{text!r} is no ")  # noqa: PT017 - or it is a number


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((*RELEASE, "--epsilon", "nan"), "--epsilon nan: give a number from 1e-05 to 100"),
        ((*RELEASE, "--epsilon", "inf"), "--epsilon inf: give a number from 1e-05 to 100"),
        ((*PLAN, "--users", "1e5", "--epsilon", "0,5"), "--epsilon 0,5: commas separate several values, and ε = 0 is none; a decimal is written with a point (0.5)."),
        (("vocab", "public.txt", "-o", "x", "--order", 0), "--order 0: an n-gram has 1 to 6 tokens."),
        (("vocab", "public.txt", "-o", "x", "--orders", 0), "--orders 0: an n-gram has 1 to 6 tokens."),
        (("vocab", "public.txt", "-o", "x", "--orders", "1,7"), "--orders 7: an n-gram has 1 to 6 tokens."),
        (("vocab", "public.txt", "-o", "x", "--orders", "1;2"), "--orders '1;2': give whole numbers separated by commas, such as 1,2,3."),
        (("vocab", "public.txt", "-o", "x", "--orders", ""), "--orders '': give whole numbers separated by commas, such as 1,2,3."),
        (("vocab", "public.txt", "-o", "x", "--size", "1,000"), "--size 1,000: commas separate the sizes of several orders; a number is written without separators (1000)."),
        (("vocab", "public.txt", "-o", "x", "--size", ""), "--size '': give whole numbers separated by commas"),
        (("vocab", "public.txt", "-o", "x", "--list", "none"), "none: no such file. Check the path"),
        (("discover", "none", "--vocab", "vocab.parquet", "--epsilon", 1, "-o", "x", "--dry-run"), "none: no such file. Check the path"),
        ((*RELEASE, "--mechanism", "paper", "--epsilon", 1, "--tune", "--slopes", ""), "--slopes '': give numbers separated by commas, such as"),
        (RELEASE, "--epsilon is missing: posterior needs a budget"),
        (("audit", "counts", "--vocab", "vocab.parquet"), "--epsilon is missing: posterior needs a budget"),
        ((*RELEASE, "--epsilon", 1, "--tune"), "--tune: not an option of the mechanism posterior, which has --clip-norm, --expected-users. --tune is for --mechanism paper."),
        ((*RELEASE, "--epsilon", 1, "--max-total", 3), "--max-total is for --mechanism paper or laplace or laplace-public."),
        ((*RELEASE[:-1], "counts", "--epsilon", 1, "--force"), "counts: would replace the input counts; choose another --output."),
        (("vocab", "public.txt", "-o", "public.txt/out"), "public.txt is a file, and no folder can be in it; choose another --output."),
        (("vocab", "public.txt", "-o", "public.txt/a/out"), "public.txt is a file, and no folder can be in it; choose another --output."),
        (("demo", "--users", 99, "-o", "x"), "--users 99: the number of users of a demo is a whole number from 100 to 10,000,000."),
        (("demo", "--sentences", 5, "-o", "x"), "--sentences 5: the number of sentences of a demo is a whole number from 100 to"),
        (("predict", "vocab.parquet", "the"), "vocab.parquet: no language model; give a release folder, a model folder or an ARPA file."),
        (("interpolate", "out", "out", "-o", "x"), "out: is given twice; give each once."),
    ],
)  # fmt: skip
def test_what_an_option_does_not_take(work, arguments, told):
    assert told in expect_refusal(*arguments, cwd=work)
    assert not (work / "x").exists()


def test_sizes_of_several_orders_may_look_like_thousands(work, capsys):
    run_in_process(
        "vocab",
        "public.txt",
        "--orders",
        "1,2",
        "--size",
        "1,200",
        "-o",
        "two.parquet",
        "--json",
        cwd=work,
    )
    assert json.loads(capsys.readouterr().out)["order"] == [1, 2]
    assert "(1200)" in expect_refusal(
        "vocab", "public.txt", "--order", 2, "--size", "1,200", "-o", "x", cwd=work
    )


BY = ("count", "messages.parquet", "--vocab", "vocab.parquet", "--by", "country", "--other")


@pytest.mark.parametrize(
    ("name", "why"),
    [("contries.txt", "no such file"), ("lists/de", "no such file"), ("out/", "is a folder")],
)
def test_a_file_of_segments_that_is_not_there_is_no_segment(work, name, why):
    message = expect_refusal(*BY, "--segments", name, "-o", "x", cwd=work)
    assert message.startswith(
        f"--segments {name}: {why}. Name a file with one segment on each line"
    )
    assert not (work / "x").exists()


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ("de", ["de"]),
        ("St. Gallen", ["St. Gallen"]),
        ("v1.0", ["v1.0"]),
        ("a.txt,", ["a.txt"]),
        ("a.txt,de", ["a.txt", "de"]),
    ],
)
def test_names_of_segments_may_have_dots(work, tmp_path, capsys, given, names):
    run_in_process(*BY, "--segments", given, "-o", tmp_path / "counts", "--json", cwd=work)
    assert json.loads(capsys.readouterr().out)["segments"] == [*names, "other"]


def test_places_are_called_as_they_were_given(work, monkeypatch):
    def denied(*_, **__):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("bayesgram.io.atomic.unfinished_folder", denied)
    said = "can't be written there (Operation not permitted); choose another"
    ledger = ("ledger", "create", "--population", "p", "--epsilon", 1, "--delta", 0, "new.ledger")
    assert f"new.ledger: {said} place." in expect_refusal(*ledger, cwd=work)
    assert f"a.svg: {said} --plot." in expect_refusal(
        *PLAN, "--users", "1e5", "--plot", "a.svg", cwd=work
    )
    assert f"x: {said} --output." in expect_refusal(*RELEASE, "--epsilon", 1, cwd=work)


@pytest.mark.parametrize(
    "damage", [lambda data: data[:300], lambda data: b"\0" * len(data), lambda _: b""]
)
def test_damaged_counts_are_a_run_that_failed(work, tmp_path, damage):
    (tmp_path / "meta.json").write_bytes((work / "counts" / "meta.json").read_bytes())
    (tmp_path / "counts.parquet").write_bytes(
        damage((work / "counts" / "counts.parquet").read_bytes())
    )
    message = expect_refusal("release", tmp_path, *RELEASE[2:], "--epsilon", 1, cwd=work, code=1)
    assert message.endswith(
        "is damaged or cut short; copy it again, or count again with `bayesgram count`."
    )
    assert "make one with `bayesgram count`" in expect_refusal(
        "release", "public.txt", *RELEASE[2:], "--epsilon", 1, cwd=work
    )


def test_ledgers_in_words(work, capsys):
    message = expect_refusal("ledger", "list", "none", "nothing", cwd=work, code=1)
    assert ".;" not in message
    assert " nothing: the ledger can't be opened" in message
    run_in_process(
        "release",
        "counts",
        "--vocab",
        "vocab.parquet",
        "-o",
        "charged",
        "--epsilon",
        0.1,
        "--ledger",
        "a.ledger",
        cwd=work,
    )
    run_in_process("ledger", "show", "a.ledger", cwd=work)
    assert "by 1 reservation\n" in capsys.readouterr().out


def test_a_report_for_machines_says_null_where_nothing_is_private(work, capsys):
    run_in_process("report", "out", "-o", "report.html", "--json", cwd=work)
    assert json.loads(capsys.readouterr().out)["private"] is None


@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_not_cut_off_in_80_columns(command, capsys, monkeypatch):
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", 80)
    command_line([command])([command, "--help"], standalone_mode=False)
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80
    assert not [line for line in shown.splitlines() if "…" in line.replace(" … ", "")]


@pytest.mark.parametrize(
    ("typed", "number"),
    [("20k", 20_000), ("1.5M", 1_500_000), ("3K", 3_000), ("2m", 2_000_000), (" 7k ", 7_000)],
)
def test_thousands_and_millions_have_letters(typed, number):
    assert options.parse_int(typed) == number


@pytest.mark.parametrize("typed", ["k", "1.5", "1.2345k", "1kk", "1 k", "20g", "1e3k", "1,5k"])
def test_other_letters_are_no_numbers(typed):
    with pytest.raises(typer.BadParameter, match="is no whole number"):
        options.parse_int(typed)


def test_sizes_may_be_written_with_letters(work, capsys):
    sizes = ("--orders", "1,2", "--size", "0.002k,0.003k")
    run_in_process("vocab", "public.txt", *sizes, "-o", "made/by/k.parquet", "--json", cwd=work)
    assert json.loads(capsys.readouterr().out)["ngrams"] == 5
