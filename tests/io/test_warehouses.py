"""Tables and queries of databases: what is read, what is refused, and what no message shows."""

import sqlite3
import sys
import warnings
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from bayesgram.errors import BayesgramError, UsageError
from bayesgram.io import read_records
from bayesgram.io.atomic import find_temporary_folders
from helpers import postgres
from helpers.databases import ROWS, fill_postgres, make_duckdb, messages

HIDDEN = "hidden-words"  # what no message may show


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("duckdb") / "chat.duckdb"
    odd = messages(3)
    return make_duckdb(
        path, messages=messages(), empty=messages(0), **{'odd"; DROP TABLE messages; --': odd}
    )


@pytest.fixture(scope="module")
def server():
    if not postgres.is_available():
        pytest.skip("no PostgreSQL server is installed")
    with postgres.running_server() as running:
        fill_postgres(running, "messages", messages())
        fill_postgres(running, "empty", messages(0))
        running.execute(
            "CREATE TYPE mood AS ENUM ('low', 'high')",
            "CREATE TABLE kinds (id uuid, price numeric, mood mood, tags text[], data jsonb,"
            " code bigint, text text)",
            "INSERT INTO kinds VALUES ('00000000-0000-0000-0000-00000000000a', 1.5, 'low', '{a}',"
            " '{}', 7, 'a b'), (NULL, 2, 'high', '{}', '1', 8, NULL)",
        )
        yield running


@pytest.fixture
def client(server, monkeypatch):
    """A server that drivers find by their environment variables."""
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    return server


def message(inputs, error=BayesgramError, user="user", text="text", **options):
    with pytest.raises(error) as caught:
        list(read_records(inputs, text_column=text, user_column=user, **options))
    shown = str(caught.value)
    assert HIDDEN not in shown
    assert postgres.PASSWORD not in shown
    # Neither a traceback nor a notebook shows what came before.
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    return shown


def expected_rows():
    table = messages()
    return sorted(zip(table["user"].to_pylist(), table["text"].to_pylist(), strict=True))


# --- DuckDB ---


def test_a_table_and_a_query_of_duckdb(read, file):
    assert sorted(read(f"duckdb:{file}?table=messages")) == expected_rows()
    assert sorted(read(f"duckdb:{file}?table=main.messages")) == expected_rows()
    query = "SELECT text AS said, user FROM messages WHERE number < 5 -- the first"
    assert read(f"duckdb:{file}?query={query}", text="said") == [
        (f"u{number * 7919 % 500}", f"the red fish {number} swims to wall {number}")
        for number in range(5)
    ]
    with_clause = "WITH few AS (SELECT * FROM messages LIMIT 2) SELECT * FROM few ORDER BY number;"
    assert len(read(f"duckdb:{file}?query={with_clause}")) == 2


def test_a_name_of_a_table_is_never_sql(read, file):
    name = "%22odd%22%22; DROP TABLE messages; --%22"
    assert len(read(f"duckdb:{file}?table={name}")) == 3
    assert "there is no such table" in message(
        f"duckdb:{file}?table=messages; DROP TABLE messages", UsageError
    )
    assert len(read(f"duckdb:{file}?table=messages")) == ROWS


def test_duckdb_comes_in_small_batches(file):
    reader = read_records(f"duckdb:{file}?table=messages", text_column="text", user_column="user")
    sizes = [len(batch) for batch in reader]
    assert sum(sizes) == ROWS
    assert max(sizes) <= 4096
    assert [len(batch) for batch in reader] == sizes  # and again


def test_a_duckdb_file_is_not_written(file):
    before = file.read_bytes()
    for statement in ("DROP TABLE messages", "DELETE FROM messages", "CREATE TABLE x (a INT)"):
        assert "SQL" in message(f"duckdb:{file}?query={statement}", UsageError)
    escape = "SELECT * FROM messages) AS a; DROP TABLE messages; SELECT * FROM (SELECT 1"
    message(f"duckdb:{file}?query={escape}")
    assert file.read_bytes() == before
    assert sorted(path.name for path in file.parent.iterdir()) == ["chat.duckdb"]
    assert find_temporary_folders(file.parent) == []


@pytest.mark.parametrize(
    ("end", "columns", "error", "said"),
    [
        ("?table=nowhere", {}, UsageError, "no such table, view or function (CatalogException)"),
        (
            "?table=messages",
            {"text": "body"},
            UsageError,
            "no column 'body'; the columns are 'user'",
        ),
        ("?table=messages", {"user": "number"}, UsageError, "'number' holds double; ids must be"),
        ("?query=SELECT 1 AS x", {}, UsageError, "no column 'text'; the columns are 'x'"),
        ("?query=SELECT [user] AS user, text FROM messages", {}, UsageError, "holds list<"),
        ("?query=SELECT nope FROM messages", {}, UsageError, "a column that is not there"),
        ("?query=SELECT (", {}, UsageError, "not correct SQL (ParserException)"),
        (
            f"?query=SELECT user, error('{HIDDEN}') AS text FROM messages",
            {},
            BayesgramError,
            "reading failed",
        ),
        (
            f"?query=SELECT user, CASE WHEN number > 8000 THEN error('{HIDDEN}') ELSE text END AS text FROM messages",
            {},
            BayesgramError,
            "reading failed",
        ),
        ("?table=empty", {"require_rows": True}, BayesgramError, "the inputs hold no row"),
    ],
)
def test_errors_of_duckdb(file, end, columns, error, said):
    shown = message(f"duckdb:{file}{end}", error, **columns)
    assert said in shown
    assert "FROM messages" not in shown


def test_files_that_are_no_database(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("x.duckdb").write_text(HIDDEN * 100, encoding="utf-8")
    assert message("duckdb:nowhere.duckdb?table=t", UsageError).startswith(
        "duckdb:nowhere.duckdb?table=t: no such file. "
    )
    assert message(f"duckdb:{tmp_path}?table=t", UsageError).endswith("a DuckDB database.")
    assert "can't connect (IOException). Check that it is a DuckDB" in message(
        "duckdb:x.duckdb?table=t"
    )
    with pytest.raises(UsageError, match=r"Name a table of it: duckdb:PATH\?table=NAME\."):
        read_records(Path("x.duckdb"), text_column="text", user_column=None)


def test_a_file_that_this_process_writes(tmp_path):
    connection = duckdb.connect(tmp_path / "x.duckdb")
    connection.execute("CREATE TABLE t AS SELECT 'a' AS user, 'b' AS text")
    shown = message(f"duckdb:{tmp_path}/x.duckdb?table=t")
    connection.close()
    assert "Give a relation of that connection instead" in shown


def test_one_table_is_not_read_twice(file, monkeypatch):
    monkeypatch.chdir(file.parent)
    twice = [f"duckdb:{file}?table=messages", "duckdb:chat.duckdb?table=messages"]
    assert "named twice, first as duckdb:" in message(twice, UsageError)
    reader = read_records(
        [twice[0], "duckdb:chat.duckdb?table=empty"], text_column="text", user_column="user"
    )
    assert sum(map(len, reader)) == ROWS


def test_a_driver_that_is_not_installed(file, monkeypatch):
    for name in ("duckdb", "adbc_driver_postgresql", "ibis"):
        monkeypatch.setitem(sys.modules, name, None)
    installs = {
        f"duckdb:{file}?table=t": "'bayesgram[duckdb]'",
        "postgresql://h/d?table=t": "'bayesgram[postgres]'",
        "bigquery://p/d?table=t": "'bayesgram[bigquery]'",
        "snowflake://a/d?table=t": "'bayesgram[snowflake]'",
        "trino://h/d?table=t": "'bayesgram[ibis]' 'ibis-framework[trino]'",
    }
    for uri, extra in installs.items():
        assert message(uri, UsageError).endswith(f"is not installed: `pip install {extra}`.")


def test_a_backend_of_ibis_that_is_not_installed():
    shown = message(f"trino://u:{HIDDEN}@h/d?table=t", UsageError)
    assert shown.endswith("`pip install 'bayesgram[ibis]' 'ibis-framework[trino]'`.")


def test_rows_that_change_between_two_readings(file):
    sample = "SELECT user, text FROM messages USING SAMPLE 10 PERCENT (bernoulli)"
    reader = read_records(f"duckdb:{file}?query={sample}", text_column="text", user_column="user")
    list(reader)
    with pytest.raises(BayesgramError, match="gave other rows when it was read again"):
        list(reader)
    shuffled = "SELECT user, text FROM messages ORDER BY random()"
    reader = read_records(f"duckdb:{file}?query={shuffled}", text_column="text", user_column="user")
    first, again = list(reader), list(reader)
    assert first[0].text != again[0].text


def test_our_own_tables_are_no_public_text(tmp_path):
    ours = pa.table({"ngram": ["a b"], "probability": [0.1]})
    named = ours.replace_schema_metadata({"bayesgram.format": "2"})
    path = make_duckdb(tmp_path / "x.duckdb", release=ours)
    for inputs in (f"duckdb:{path}?table=release", ours, named):
        shown = message(inputs, UsageError, user=None, text="ngram")
        assert "a table of a release, a discovery or a vocabulary" in shown
    texts = pa.table({"ngram": ["a b"], "text": ["c"]})
    list(read_records(texts, text_column="text", user_column=None))


def test_a_reading_that_stops_leaves_nothing_open(file):
    reader = read_records(f"duckdb:{file}?table=messages", text_column="text", user_column="user")
    batches = iter(reader)
    next(batches)
    batches.close()
    duckdb.connect(file).close()  # for writing: nobody else has it open
    assert find_temporary_folders(file.parent) == []


# --- PostgreSQL ---


def test_a_table_and_a_query_of_postgresql(read, client):
    assert sorted(read("postgresql:///?table=messages")) == expected_rows()
    assert sorted(read("postgres:///chat?table=public.messages")) == expected_rows()
    query = 'SELECT "user", text FROM messages WHERE number < 5 -- the first'
    assert len(read(f"postgresql:///?query={query}")) == 5
    assert read("postgresql:///?table=kinds", user="code") == [("7", "a b"), ("8", "")]


def test_ids_that_are_uuids(read, client):
    rows = read("postgresql:///?table=kinds", user="id", skip_bad_rows=True)
    assert rows == [("00000000-0000-0000-0000-00000000000a", "a b")]


@pytest.mark.parametrize(
    ("end", "columns", "error", "said"),
    [
        ("?table=nowhere", {}, UsageError, "no such table (ProgrammingError, SQLSTATE 42P01)"),
        (
            "?table=messages",
            {"text": "body"},
            UsageError,
            "no column 'body'; the columns are 'user'",
        ),
        ("?table=messages", {"user": "number"}, UsageError, "'number' holds double; ids must be"),
        ("?table=kinds", {"user": "tags"}, UsageError, "'tags' holds list<item: string>; ids"),
        ("?table=kinds", {"user": "price"}, UsageError, "the type numeric of PostgreSQL; ids must"),
        (
            "?table=kinds",
            {"user": "code", "text": "data"},
            UsageError,
            "the text column 'data' holds JSON",
        ),
        ("?query=SELECT nope FROM messages", {}, UsageError, "SQLSTATE 42703"),
        ("?query=SELECT (", {}, UsageError, "not correct SQL"),
        ("?query=DROP TABLE messages", {}, UsageError, "not correct SQL"),
        (
            "?query=WITH gone AS (DELETE FROM messages RETURNING *) SELECT * FROM gone",
            {},
            UsageError,
            "Give a query that only reads",
        ),
        (
            '?query=SELECT "user", repeat(text, 100) || 1 / (number - 8000)::int AS text FROM messages',
            {},
            BayesgramError,
            "reading failed half-way (OSError). Nothing was kept",
        ),
        (
            f"?query=SELECT '{HIDDEN}'::int::text AS \"user\", text FROM messages",
            {},
            BayesgramError,
            "reading failed",
        ),
        ("?table=empty", {"require_rows": True}, BayesgramError, "the inputs hold no row"),
    ],
)
def test_errors_of_postgresql(client, end, columns, error, said):
    shown = message(f"postgresql:///{end}", error, **columns)
    assert said in shown
    assert "FROM messages" not in shown


def test_postgresql_is_not_written(read, client):
    client.execute(
        "CREATE OR REPLACE FUNCTION forget() RETURNS text LANGUAGE plpgsql AS"
        " $$ BEGIN DELETE FROM messages; RETURN 'x'; END $$"
    )
    shown = message("postgresql:///?query=SELECT forget() AS \"user\", 'a' AS text")
    assert "reading failed" in shown
    assert len(read("postgresql:///?table=messages")) == ROWS


def test_a_connection_that_is_refused(client, monkeypatch):
    monkeypatch.setenv("PGPASSWORD", HIDDEN)
    assert "can't connect (OperationalError)" in message("postgresql:///?table=messages")
    for address in (
        f"postgresql://ann:{HIDDEN}@127.0.0.1:1/chat",
        f"postgresql://ann:{HIDDEN}/@/127.0.0.1:1/chat",
        f"postgresql:///chat?password={HIDDEN}",
        f"postgresql:///chat?bogus={HIDDEN}",
    ):
        separator = "&" if "?" in address else "?"
        assert "can't connect" in message(f"{address}{separator}table=messages")
    monkeypatch.setenv("CHAT", f"postgresql://ann:{HIDDEN}@127.0.0.1:1/chat")
    assert message("env:CHAT?table=t").startswith("env:CHAT?table=t: can't connect (")


def test_a_connection_that_is_lost_half_way(client):
    """A real server really ends the connection, while rows come."""
    client.execute("ALTER TABLE messages ALTER COLUMN text SET STORAGE EXTERNAL")
    long = 'SELECT "user", repeat(text, 400) AS text FROM messages'
    reader = read_records(f"postgresql:///?query={long}", text_column="text", user_column="user")
    batches = iter(reader)
    next(batches)
    assert client.kill_backends() == 1
    with pytest.raises(BayesgramError) as caught:
        list(batches)
    assert caught.value.exit_code == 1
    assert str(caught.value) == (
        "postgresql:///?query=…: the connection was lost while rows were read (OSError). Nothing was"
        " kept. Check the server and the network, then run it again."
    )


def test_a_table_that_nobody_may_read(client, monkeypatch):
    client.execute(
        f"CREATE ROLE guest LOGIN PASSWORD '{HIDDEN}'", "REVOKE ALL ON messages FROM PUBLIC"
    )
    monkeypatch.setenv("PGUSER", "guest")
    monkeypatch.setenv("PGPASSWORD", HIDDEN)
    assert "permission denied" in message("postgresql:///?table=messages", UsageError)


def test_a_service_file_has_the_password(read, client, tmp_path, monkeypatch):
    for name in ("PGHOST", "PGUSER", "PGPASSWORD", "PGDATABASE"):
        monkeypatch.delenv(name)
    secrets = tmp_path / "pgpass"
    secrets.write_text(f"*:*:chat:{postgres.USER}:{postgres.PASSWORD}\n")
    secrets.chmod(0o600)
    service = tmp_path / "services"
    service.write_text(
        f"[messages]\nhost={client.folder}\nuser={postgres.USER}\ndbname=chat\npassfile={secrets}\n"
    )
    monkeypatch.setenv("PGSERVICEFILE", str(service))
    assert len(read("postgresql:///?service=messages&table=messages")) == ROWS


# --- Ibis and other drivers of ADBC ---


@pytest.fixture
def sqlite(tmp_path):
    path = tmp_path / "chat.sqlite"
    connection = sqlite3.connect(path)
    connection.execute('CREATE TABLE messages ("user" TEXT, text TEXT, number REAL)')
    rows = zip(*(column.to_pylist() for column in messages().columns), strict=True)
    connection.executemany("INSERT INTO messages VALUES (?, ?, ?)", rows)
    connection.commit()
    connection.close()
    return path


@pytest.fixture
def old_names():
    """Ibis calls what DuckDB and Python have given up."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def test_a_driver_of_adbc(read, sqlite):
    assert sorted(read(f"adbc+sqlite:file:{sqlite}?mode=ro&table=messages")) == expected_rows()
    query = 'SELECT "user", text FROM messages LIMIT 5'
    assert len(read(f"adbc+sqlite:{sqlite}?query={query}")) == 5
    shown = message("adbc+nowhere:x?table=t")
    assert "that the driver 'nowhere' is installed" in shown


def test_a_uri_of_ibis(read, sqlite, old_names):
    assert sorted(read(f"sqlite://{sqlite}?table=messages")) == expected_rows()
    assert len(read(f"sqlite://{sqlite}?query=SELECT * FROM messages LIMIT 5")) == 5
    assert "there is no such table (TableNotFound" in message(
        f"sqlite://{sqlite}?table=nowhere", UsageError
    )
    assert "no column 'body'" in message(
        f"sqlite://{sqlite}?table=messages", UsageError, text="body"
    )
    assert "'number' holds double" in message(
        f"sqlite://{sqlite}?table=messages", UsageError, user="number"
    )


def test_tables_of_ibis(read, sqlite, file, client, old_names):
    import ibis

    backends = [
        ibis.sqlite.connect(sqlite),
        ibis.duckdb.connect(file, read_only=True),
        ibis.postgres.connect(
            host=client.folder, user=postgres.USER, password=postgres.PASSWORD, database="chat"
        ),
    ]
    for backend in backends:
        table = backend.table("messages")
        assert sorted(read(table)) == expected_rows(), backend.name
        few = table.filter(table.number < 5).mutate(said=table.text.upper())
        assert len(read(few, text="said")) == 5
        assert "no column 'body'" in message(table, UsageError, text="body")
        backend.disconnect()
    assert sorted(read(ibis.memtable(messages()))) == expected_rows()
