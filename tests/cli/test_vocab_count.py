"""vocab and count through the installed entry point: nothing is lost in silence, and a script can see when all is."""

import json
from functools import partial

import pyarrow.parquet as pq
import pytest

from helpers.commands import bayesgram, check_output, expect_failure

SECRET = "zanzibarmagicpassword"

fail = partial(expect_failure, secret=SECRET)


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    (folder / "public.txt").write_text("the red fish swims. the blue fish sleeps.\n")
    check_output("vocab", "public.txt", "--order", 2, "-o", "vocab.parquet", cwd=folder)
    (folder / "data").mkdir()
    (folder / "data" / "a.csv").write_text("user,text\nann,the red fish\n")
    (folder / "data" / "b.csv").write_text("user,text\n")
    (folder / "data" / "c.csv").write_text(f"user,text\n,{SECRET}\n")
    (folder / "data" / "notes.docx").write_text(SECRET)
    (folder / "data" / ".hidden.csv").write_text(f"user,text\nbo,{SECRET}\n")
    return folder


def count(inputs, *more, output="counts"):
    return ("count", inputs, "--vocab", "vocab.parquet", "-o", output, *more)


def test_what_is_not_read_and_what_gives_no_row_is_said(work):
    done = bayesgram(*count("data", "--skip-bad-rows", "--json"), cwd=work)
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stderr.split())
    assert (
        "data: not read: data/.hidden.csv, data/notes.docx (names that begin with . or _ are left out;"
        in said
    )
    assert "data/b.csv: no row in it." in said
    assert "data/c.csv: every row was skipped." in said
    assert "warning" not in said
    told = json.loads(done.stdout)
    assert told["not_read"] == ["data/.hidden.csv", "data/notes.docx"]
    assert told["bad_rows_skipped"] == {"no user id": 1}
    assert told["any_ngram_found"] is True
    assert SECRET not in done.stdout + done.stderr


def test_nothing_read_is_an_error_and_nothing_is_written(work):
    message = fail(*count("data/b.csv", output="x"), cwd=work, code=1)
    assert message.endswith(
        "error: nothing was read: the inputs hold no row. Check that they are the right ones."
    )
    message = fail(*count("data/[bc].csv", "--skip-bad-rows", output="x"), cwd=work, code=1)
    assert message.endswith(
        "error: nothing was read: every row was skipped (no user id). Correct the rows, or name the right columns with"
        " --text-column and --user-column."
    )
    assert "error: nothing was read" in fail("vocab", "data/b.csv", "-o", "x", cwd=work, code=1)
    assert not (work / "x").exists()


def test_text_without_any_ngram_is_said_by_count_and_never_by_release(work):
    (work / "other.csv").write_text(f"user,text\nann,{SECRET}\n")
    done = bayesgram(*count("other.csv", "--json", output="empty"), cwd=work)
    assert done.returncode == 0, done.stderr
    assert "warning: no n-gram of vocab.parquet was found in any text." in done.stderr
    assert json.loads(done.stdout)["any_ngram_found"] is False
    assert pq.read_metadata(work / "empty" / "counts.parquet").num_rows == 0
    bayesgram(*count("data/a.csv", output="one"), cwd=work)
    arguments = ("--vocab", "vocab.parquet", "--mechanism", "laplace", "--epsilon", 1)
    said = []
    for name in ("empty", "one"):
        done = bayesgram("release", name, *arguments, "-o", "out", "--force", cwd=work)
        lines = [
            line.split(" 0:00:")[0] for line in done.stderr.splitlines() if "Compiling" not in line
        ]
        said.append((done.returncode, done.stdout, lines))
    assert said[0] == said[1]
    assert said[0][0] == 0


def test_a_file_whose_rows_are_joined_stops_the_run_even_if_bad_rows_are_skipped(work):
    (work / "joined.tsv").write_text(
        f'user\ttext\nalice\t"hello\nbob\t{SECRET}\ncarol\t"well", she said\n'
    )
    message = fail(*count("joined.tsv", "--skip-bad-rows", output="x"), cwd=work, code=1)
    assert (
        "joined.tsv: row 1: bytes after a closing quote, so the rows of several people may have become one."
        in message
    )
    assert (
        "The whole file is refused: write it anew with quotes as RFC 4180 has them, or as Parquet"
        in message
    )
    assert not (work / "x").exists()


def test_a_format_that_is_not_read_is_wrong_use(work):
    (work / "array.json").write_text(json.dumps([{"user": "ann", "text": SECRET}]))
    message = fail(*count("array.json", output="x"), cwd=work, code=2)
    assert (
        "array.json: is one JSON array; one object a line is read. `jq -c '.[]' OLD > NEW.jsonl` makes"
        in message
    )


def write_people(work):
    """Users who wrote 1 listed bigram of 2, and 150 who wrote none of them."""
    lines = [f"u{user},the red {SECRET}" for user in range(200)]
    lines += [f"v{user},{SECRET} {SECRET} {SECRET}" for user in range(150)]
    lines += ["w,alone"]
    (work / "people.csv").write_text("\n".join(["user,text", *lines, ""]))


def test_what_the_vocabulary_covers_is_said(work):
    write_people(work)
    done = bayesgram(*count("people.csv", output="covered"), cwd=work)
    assert done.returncode == 0, done.stderr
    # 200 of 200 · 2 + 150 · 2 bigrams are listed: 29%.
    shown = " ".join(done.stdout.split())
    assert "Wrote covered: the counts of about 200 users. They are private" in shown
    assert "The vocabulary covers 29% of bigrams that people wrote." in shown
    assert "Users who wrote none of its n-grams: about 150." in shown
    assert "Rows without text: fewer than 100." in shown
    said = " ".join(done.stderr.split())
    assert (
        "note: vocab.parquet covers 29% of bigrams that people wrote. To cover more, make a larger"
        " list (`bayesgram vocab --size`), use public text that is nearer to theirs, or add n-grams"
        " with `bayesgram discover`." in said
    )
    assert SECRET not in done.stdout + done.stderr
    told = json.loads(check_output(*count("people.csv", "--json", "--force"), cwd=work))
    assert told["coverage"] == {"2": 0.29}
    assert told["users_without_ngrams"] == 150
    assert (told["users"], told["nonzeros"]) == (200, 200)


def test_nothing_is_to_be_done_where_the_vocabulary_covers_enough(work):
    done = bayesgram(*count("data/a.csv", output="enough"), cwd=work)
    assert "covers 100% of bigrams that people wrote." in " ".join(done.stdout.split())
    assert "Users who wrote none of its n-grams: fewer than 100." in " ".join(done.stdout.split())
    assert "To cover more" not in done.stderr
    (work / "words.csv").write_text("user,text\nann,alone\n")
    done = bayesgram(*count("words.csv", output="words"), cwd=work)
    assert "covers nothing: people wrote no n-gram of these orders" in " ".join(done.stdout.split())
    assert "To cover more" not in done.stderr


def test_coverage_is_of_all_segments_together(work):
    lines = ["ann,the red fish,de", "bob,the red zebra,fr", "cy,no fish here,de"]
    (work / "by.csv").write_text("\n".join(["user,text,country", *lines, ""]))
    chosen = ("--by", "country", "--segments", "de,fr", "--json")
    told = json.loads(check_output(*count("by.csv", *chosen, output="by"), cwd=work))
    assert told["coverage"] == {"2": 0.5}
    assert told["users_without_ngrams"] == 100  # at most: below 100 is rounded to 100


def test_files_with_semicolons_in_latin_1(work):
    data = f"user;text\nann;the red fish\nbo;caf\xe9 {SECRET}\nche;\n"
    (work / "western.csv").write_bytes(data.encode("latin-1"))
    said = fail(*count("western.csv", output="west"), cwd=work, code=2)
    assert said.endswith("and the file is read with commas. Say so with --delimiter ';'.")
    semicolons = ("--delimiter", ";")
    said = fail(*count("western.csv", *semicolons, output="west"), cwd=work, code=1)
    assert (
        "row 2: the text is not valid UTF-8; it looks like Latin-1. Say so with --encoding" in said
    )
    arguments = (*semicolons, "--encoding", "latin-1", "--json")
    told = json.loads(check_output(*count("western.csv", *arguments, output="west"), cwd=work))
    assert (told["any_ngram_found"], told["rows_without_text"]) == (True, 100)
    vocabulary = ("vocab", "western.csv", "--order", 1, "-o", "western.parquet")
    told = json.loads(check_output(*vocabulary, *arguments, cwd=work))
    assert told["ngrams"] == 5
    assert "café" in pq.read_table(work / "western.parquet")["ngram"].to_pylist()


def test_a_delimiter_that_is_none_is_wrong_use(work):
    said = fail(*count("data/a.csv", "--delimiter", ";;", output="x"), cwd=work, code=2)
    assert "--delimiter ';;': give one character such as ';'" in said
    said = fail(*count("data/a.csv", "--encoding", "utf-16", output="x"), cwd=work, code=2)
    assert "--encoding 'utf-16': give utf-8, latin-1, cp1252" in said
