"""Commands that read databases: the same bits as from files, in any order, and no secret shown."""

import contextlib
import json
import os
import subprocess
import sys
import time

import pyarrow.parquet as pq
import pytest

import bayesgram as bg
from bayesgram.errors import UsageError
from bayesgram.io import read_records
from bayesgram.private.streaming import count_to_folder
from helpers import postgres
from helpers.commands import bayesgram, check_output, expect_refusal, run_in_process
from helpers.databases import fill_postgres, make_duckdb, messages

SECRET = "s3cr3t-w0rd"
PEOPLE = 3000  # rows
# The rows of a table in other orders.
ORDERS = [f"SELECT * FROM messages ORDER BY hash(number + {start})" for start in (1, 2)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A DuckDB file and the same rows as Parquet files, with a vocabulary."""
    folder = tmp_path_factory.mktemp("chat")
    private, public = messages(PEOPLE), messages(400)
    make_duckdb(folder / "chat.duckdb", messages=private, articles=public.select(["text"]))
    pq.write_table(private, folder / "messages.parquet")
    pq.write_table(public.select(["text"]), folder / "articles.parquet")
    run_in_process("vocab", "articles.parquet", "--size", 30, "-o", "vocab.parquet", cwd=folder)
    (folder / "vocab.parquet.rows").unlink()  # public and private rows are alike here
    return folder


def count(folder, source, output, *options):
    run_in_process("count", source, "--vocab", "vocab.parquet", "-o", output, *options, cwd=folder)
    return (folder / output / "counts.parquet").read_bytes()


def test_counts_are_those_of_a_file_in_any_order(folder):
    expected = count(folder, "messages.parquet", "c0")
    assert count(folder, "duckdb:chat.duckdb?table=messages", "c1") == expected
    for number, query in enumerate(ORDERS):
        assert count(folder, f"duckdb:chat.duckdb?query={query}", f"o{number}") == expected


def test_a_vocabulary_and_its_model_are_those_of_a_file_in_any_order(folder):
    def make(source, output):
        run_in_process("vocab", source, "--size", "20,30,40", "-o", output, cwd=folder)
        model = folder / f"{output}.model"
        files = [folder / output, *sorted(path for path in model.rglob("*") if path.is_file())]
        return [(file.name.replace(output, ""), file.read_bytes()) for file in files]

    expected = make("articles.parquet", "v0.parquet")
    assert len(expected) > 3
    assert make("duckdb:chat.duckdb?table=articles", "v1.parquet") == expected
    shuffled = "SELECT text FROM articles ORDER BY hash(text)"
    assert make(f"duckdb:chat.duckdb?query={shuffled}", "v2.parquet") == expected
    assert make(f"chat=duckdb:chat.duckdb?query={shuffled}", "v3.parquet") != expected  # a name


def test_no_bit_depends_on_the_order_at_any_border(folder, tmp_path, monkeypatch):
    """Rows spill to disk, and come in batches of other sizes each time."""
    monkeypatch.setattr("bayesgram.private.streaming.MIN_PENDING", 500)
    vocabulary = bg.Vocabulary.load(folder / "vocab.parquet")
    results = []
    for number, (query, rows) in enumerate(
        zip(["FROM messages", *ORDERS], (4096, 211, 1000), strict=True)
    ):
        monkeypatch.setattr("bayesgram.io.warehouses.TABLE_ROWS", rows)
        monkeypatch.setattr("bayesgram.io.readers.BATCH_ROWS", rows // 3)
        uri = f"duckdb:{folder}/chat.duckdb?query={query}"
        counts = tmp_path / f"{number}"
        records = read_records(uri, text_column="text", user_column="user")
        count_to_folder(records, vocabulary, counts, memory=1)
        found = bg.discover(uri, vocabulary, epsilon=8, seed=1, rounds=1, memory=1)
        public = bg.Vocabulary.from_public(uri, order=[1, 2, 3], size=40, memory=1)
        results.append(
            (
                (counts / "counts.parquet").read_bytes(),
                (found.ngrams.to_pylist(), found.weights.tobytes()),
                (public.ngrams.to_pylist(), public.counts.tobytes()),
            )
        )
    assert len(results[0][1][0]) > 5
    assert results[0] == results[1] == results[2]


def test_discover_split_and_evaluate_read_databases(folder):
    uri = "duckdb:chat.duckdb?table=messages"
    shuffled = f"duckdb:chat.duckdb?query={ORDERS[0]}"
    tables = []
    for number, source in enumerate(("messages.parquet", uri, shuffled)):
        run_in_process(
            *("discover", source, "--vocab", "vocab.parquet", "--epsilon", 8, "--seed", 1),
            *("--rounds", 1, "--orders", 1, "--open", "-o", f"f{number}", "--quiet"),
            cwd=folder,
        )
        tables.append((folder / f"f{number}" / "ngrams.parquet").read_bytes())
        run_in_process(
            *("split", source, "-o", f"a{number}.parquet"),
            *("--held-out-output", f"b{number}.parquet"),
            cwd=folder,
        )
    assert tables[0] == tables[1] == tables[2]
    for name in ("a", "b"):
        halves = [pq.read_table(folder / f"{name}{number}.parquet") for number in range(3)]
        assert halves[0] == halves[1]
        order = [("user", "ascending"), ("text", "ascending")]
        assert halves[0].sort_by(order) == halves[2].sort_by(order)
    counted = count(folder, uri, "counts")
    assert counted
    run_in_process(
        *(
            "release",
            "counts",
            "--vocab",
            "vocab.parquet",
            "--epsilon",
            1,
            "--seed",
            1,
            "-o",
            "out",
        ),
        cwd=folder,
    )
    evaluated = [
        check_output("evaluate", "out", "--private-text", source, "--json", cwd=folder)
        for source in ("messages.parquet", uri)
    ]
    assert evaluated[0] == evaluated[1]


def test_segments_of_a_query(folder):
    query = (
        "SELECT user, text, CASE WHEN number < 900 THEN 'de' ELSE 'fr' END AS country FROM messages"
    )
    options = ("--by", "country", "--segments", "de,fr")
    count(folder, f"duckdb:chat.duckdb?query={query}", "s", *options)
    assert json.loads((folder / "s" / "meta.json").read_text())["segments"]["names"] == ["de", "fr"]


def test_public_rows_are_recognised_in_a_database(folder):
    run_in_process("vocab", "articles.parquet", "--order", 1, "-o", "own.parquet", cwd=folder)
    said = expect_refusal(
        *("count", "duckdb:chat.duckdb?table=messages", "--vocab", "own.parquet", "-o", "x"),
        cwd=folder,
    )
    assert "public text" in said
    assert not (folder / "x").exists()


def test_a_database_is_not_replaced_by_an_output(folder):
    uri = "duckdb:chat.duckdb?table=articles"
    said = expect_refusal("vocab", uri, "-o", "chat.duckdb", "--force", cwd=folder)
    assert "would replace the input chat.duckdb" in said


def test_spark_reads_no_database(folder):
    uri = f"postgresql://ann:{SECRET}@h/d?table=messages"
    pytest.importorskip("pyspark")
    from bayesgram.io.records import Columns
    from bayesgram.spark.frames import text_from_inputs

    with pytest.raises(
        UsageError, match="Spark reads no databases; leave engine=spark out"
    ) as caught:
        text_from_inputs(None, [uri], Columns("text", "user"))
    assert SECRET not in str(caught.value)


def test_a_query_that_fails_half_way_leaves_nothing(folder, tmp_path):
    query = f"SELECT user, CASE WHEN number > 2900 THEN error('{SECRET}') ELSE text END AS text FROM messages"
    source = f"duckdb:{folder}/chat.duckdb?query={query}"
    vocab = folder / "vocab.parquet"
    for command in (
        ("count", source, "--vocab", vocab, "-o", "x"),
        ("vocab", source, "-o", "x"),
        ("split", source, "-o", "x", "--held-out-output", "y"),
        ("discover", source, "--vocab", vocab, "--epsilon", 1, "-o", "x"),
    ):
        said = expect_refusal(*command, cwd=tmp_path, code=1, secret=SECRET)
        assert "reading failed" in said
        assert list(tmp_path.iterdir()) == []


# Arguments that hold a password, where they belong and where they don't.
URI = f"postgresql://ann:{SECRET}@127.0.0.1:1/chat?sslpassword={SECRET}&table=messages"


@pytest.mark.parametrize(
    "command",
    [
        ("count", URI, "--vocab", "vocab.parquet", "-o", "x"),
        ("count", URI, "--vocab", "vocab.parquet", "-o", "x", "--json"),
        ("count", URI, "--vocab", "vocab.parquet", "-o", "x", "--verbose"),
        ("count", URI, URI, "--vocab", "vocab.parquet", "-o", "x"),
        ("count", URI, "--vocab", "vocab.parquet", "-o", "x", "--engine", "spark", "--master", "y"),
        ("count", URI.replace("postgresql", "postgre"), "--vocab", "vocab.parquet", "-o", "x"),
        ("count", "messages.parquet", "--vocab", URI, "-o", "x"),
        ("count", "messages.parquet", "--vocab", "vocab.parquet", "-o", URI, "--bogus"),
        ("discover", URI, "--vocab", "vocab.parquet", "--epsilon", "1", "-o", "x"),
        ("vocab", f"news={URI}", "-o", "x"),
        ("vocab", f"bad name={URI}", "-o", "x"),
        ("vocab", f"news={URI}", "articles.parquet", "-o", "x"),
        ("release", URI, "--vocab", "vocab.parquet", "--epsilon", "1", "-o", "x"),
        ("release", "counts", URI, "--vocab", "vocab.parquet", "--epsilon", "1", "-o", "x"),
        ("split", URI, "-o", "x", "--held-out-output", "y"),
        ("evaluate", "out", "--private-text", URI),
    ],
)
def test_no_password_is_ever_printed(folder, command):
    done = bayesgram(*command, cwd=folder)
    assert done.returncode in (1, 2), done.stdout
    assert SECRET not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert "unexpected" not in done.stderr.lower().replace("unexpected extra argument", "")
    assert not (folder / "x").exists()


@pytest.fixture(scope="module")
def server():
    if not postgres.is_available():
        pytest.skip("no PostgreSQL server is installed")
    with postgres.running_server() as running:
        fill_postgres(running, "messages", messages(PEOPLE))
        yield running


def test_no_password_is_in_what_is_written(folder, server, tmp_path):
    """A discovery of a real server: its card, its files, and all that is printed."""
    from urllib.parse import quote

    uri = (
        f"postgresql://{postgres.USER}:{quote(postgres.PASSWORD, safe='')}@/chat"
        f"?host={server.folder}&table=messages"
    )
    secrets = (postgres.PASSWORD, quote(postgres.PASSWORD, safe=""), "qz7", postgres.USER)
    vocab = str(folder / "vocab.parquet")
    for name, source, environment in (
        ("typed", uri, {}),
        ("named", "env:CHAT?table=messages", {"CHAT": uri.removesuffix("&table=messages")}),
        ("libpq", "postgresql:///?table=messages", server.environment),
    ):
        printed = ""
        discover = ("discover", source, "--vocab", vocab, "--epsilon", 8, "--rounds", 1)
        commands = [
            ("count", source, "--vocab", vocab, "-o", f"{name}/counts", "--verbose"),
            (*discover, "--orders", 1, "-o", f"{name}/found", "--verbose"),
        ]
        if name == "typed":
            commands += [
                (*discover, "--orders", 1, "-o", f"{name}/json", "--json"),
                ("vocab", f"chat={source}", "--order", 1, "-o", f"{name}/v.parquet", "--json"),
            ]
        for command in commands:
            done = bayesgram(*command, cwd=tmp_path, **environment)
            assert done.returncode == 0, done.stderr
            printed += done.stdout + done.stderr
        files = [path for path in (tmp_path / name).rglob("*") if path.is_file()]
        assert len(files) >= 5
        contents = [printed.encode(), *(file.read_bytes() for file in files)]
        for secret in secrets:
            assert [secret.encode() in content for content in contents] == [False] * len(contents)
        card = json.loads((tmp_path / name / "found" / "card.json").read_text())
        shown = {"typed": "postgresql:///chat?table=messages"}.get(name, source)
        assert f"bayesgram discover '{shown}' --vocab" in card["command"]
    counted = {
        (tmp_path / name / "counts" / "counts.parquet").read_bytes()
        for name in ("typed", "named", "libpq")
    }
    assert counted == {count(folder, "messages.parquet", "pg")}


def test_a_server_that_goes_away_while_it_is_counted(folder, server, tmp_path):
    """The command fails with 1 and leaves nothing, when the server ends its connection."""
    server.execute(
        "CREATE OR REPLACE FUNCTION slow(n float8) RETURNS text LANGUAGE plpgsql VOLATILE AS"
        " $$ BEGIN IF n > 100 THEN PERFORM pg_sleep(0.01); END IF; RETURN repeat('a ', 9999);"
        " END $$"
    )
    query = 'SELECT "user", slow(number) AS text FROM messages'
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "bayesgram", "count", f"postgresql:///?query={query}"),
            *("--vocab", folder / "vocab.parquet", "-o", "x"),
        ],
        cwd=tmp_path,
        env={**os.environ, **server.environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    end = time.monotonic() + 60
    with server.connect() as connection:
        busy = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%slow(number)%' AND state = 'active' AND pid <> pg_backend_pid() AND clock_timestamp() - query_start > '1 second'"
        while not connection.execute(busy).fetchone()[0]:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < end
            time.sleep(0.1)
    server.kill_backends()
    printed, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "the connection was lost while rows were read" in " ".join(said.split())
    assert "Traceback" not in said
    assert list(tmp_path.iterdir()) == []
    assert printed == ""


def test_progress_of_a_database_has_no_total(folder, capsys):
    with contextlib.suppress(SystemExit):
        count(folder, "duckdb:chat.duckdb?table=messages", "progress")
    assert "0/0" not in capsys.readouterr().err


def test_what_a_driver_logs_is_not_printed(folder):
    program = (
        "import logging; from bayesgram.cli import console; console.print_log_messages();"
        f" logging.getLogger('driver').error('{SECRET}');"
        " logging.getLogger('bayesgram').warning('ours')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("", "ours\n")
