"""URIs of databases: what they name, and that no message shows their secrets."""

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bayesgram.errors import UsageError
from bayesgram.io.uris import local_path, parse_uri, quote_table, redact, redact_message

SECRET = "Zq9"  # stands at the beginning of every secret


def refused(text, variables=None):
    with pytest.raises(UsageError) as caught:
        parse_uri(text, variables or {})
    assert SECRET not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "interface", "connection", "table", "query"),
    [
        ("duckdb:a/b.duckdb?table=t", "duckdb", "a/b.duckdb", ("t",), None),
        ("DuckDB:///a/b.duckdb?table=main.t", "duckdb", "///a/b.duckdb", ("main", "t"), None),
        (
            "duckdb:x.db?query=SELECT '?table=t&x=%20'",
            "duckdb",
            "x.db",
            (),
            "SELECT '?table=t&x=%20'",
        ),
        ("duckdb::memory:?query= SELECT 1; ", "duckdb", ":memory:", (), "SELECT 1"),
        ("postgres://h/d?table=t", "postgresql", "postgresql://h/d", ("t",), None),
        ("postgresql://h/d?table=a%20b&x=1", "postgresql", "postgresql://h/d?x=1", ("a b",), None),
        ("postgresql://h/d?x=1&table=t", "postgresql", "postgresql://h/d?x=1", ("t",), None),
        (
            "postgresql://h/d?x=1&table=t&y=2",
            "postgresql",
            "postgresql://h/d?x=1&y=2",
            ("t",),
            None,
        ),
        (
            "postgresql://u:p@h/d?x=1&query=SELECT 1",
            "postgresql",
            "postgresql://u:p@h/d?x=1",
            (),
            "SELECT 1",
        ),
        ("bigquery://p/d?table=t", "ibis", "bigquery://p/d", ("t",), None),
        ("adbc+sqlite:file:x.db?mode=ro&table=t", "adbc", "file:x.db?mode=ro", ("t",), None),
    ],
)
def test_what_a_uri_names(text, interface, connection, table, query):
    uri = parse_uri(text, {})
    assert (uri.interface, uri.connection, uri.table, uri.query) == (
        interface,
        connection,
        table,
        query,
    )


def test_the_path_of_a_duckdb_file():
    for text in ("duckdb:a/b.db?table=t", "duckdb://a/b.db?table=t"):
        assert parse_uri(text).path == local_path(text) == Path("a/b.db")
    assert local_path("duckdb:///a.db?query=SELECT 1") == Path("/a.db")
    assert local_path("env:X?table=t") is local_path("duckdb:?query=SELECT 1") is None


@pytest.mark.parametrize(
    ("written", "quoted"),
    [
        ("messages", '"messages"'),
        ("main.messages", '"main"."messages"'),
        ('main."a.b"', '"main"."a.b"'),
        ('"say ""hi"""', '"say ""hi"""'),
        ('t"; DROP TABLE t; --', '"t""; DROP TABLE t; --"'),
        ("a b%20c%3B", '"a b c;"'),
    ],
)
def test_every_name_of_a_table_stands_in_quotes(written, quoted):
    assert quote_table(parse_uri(f"duckdb:x.db?table={written}").table) == quoted


@pytest.mark.parametrize("table", ["", ".", "a.", ".a", '"', '""', '"a"b', "a%00b"])
def test_what_is_no_name_of_a_table(table):
    assert "is no name of a table" in refused(f"duckdb:x.db?table={table}")


def test_a_query_in_a_file(tmp_path):
    file = tmp_path / "q.sql"
    file.write_text("\ufeffSELECT 1 -- one;\n;\n", encoding="utf-8")
    assert parse_uri(f"duckdb:x.db?query=@{file}").query == "SELECT 1 -- one;"
    assert "the file after query=@ can't be read" in refused("duckdb:x.db?query=@nowhere.sql")


def test_a_uri_in_an_environment_variable():
    variables = {"DB": f"postgresql://ann:{SECRET}@h/d?sslmode=require"}
    uri = parse_uri("env:DB?table=messages", variables)
    assert uri.connection == variables["DB"]
    assert uri.name == "env:DB?table=messages"
    assert SECRET not in repr(uri)
    uri = parse_uri("env:DB?query=SELECT 1", variables)
    assert (uri.name, uri.query, uri.connection) == ("env:DB?query=…", "SELECT 1", variables["DB"])
    whole = {"DB": "duckdb:x.db?table=t"}
    assert parse_uri("env:DB", whole).name == "env:DB?table=t"
    assert parse_uri("env:DB", whole).path == Path("x.db")
    assert "names a table or a query too" in refused("env:DB?table=u", whole)
    assert "names no table" in refused("env:DB", variables)
    assert "the environment variable DB is not set" in refused("env:DB?table=t")
    for value in (SECRET, "s3://Zq9/x", "env:DB?table=t", f"/{SECRET}.parquet"):
        assert "(which is not shown) is no URI" in refused("env:DB?table=t", {"DB": value})
    assert refused(f"env:{SECRET}@x?table=t").startswith("env:…?table=t: names no environment")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("postgresql://h/d", "names no table. Add ?table=NAME, or ?query="),
        ("duckdb:x.db?table=t&query=SELECT 1", "has table= and query="),
        ("duckdb:x.db?query=", "the query is empty"),
        ("duckdb:x.db?query=;", "the query is empty"),
        ("duckdb:?table=t", "names no file"),
        ("duckdb:x.db?table=t&token=Zq9", "neither table nor query"),
        ("postgre://u:Zq9@h/d?table=t", "postgre:// is not read. The URIs that are read: duckdb:"),
        (
            "s3://Zq9/x.parquet",
            "s3:// is not read. Spark reads files elsewhere, and so does DuckDB",
        ),
        ("file:///x.parquet", "Give the path alone"),
    ],
)
def test_uris_that_are_refused(text, message):
    assert message in refused(text)


SIGNS = st.text(st.sampled_from("@/?&=:#%. x1;'\"\\é"), max_size=12)


@given(SIGNS, SIGNS, st.sampled_from(["", "?table=", "&table=", "?query=", "//", "@h/d?table="]))
@example("p@ss/", "?x", "")
@example("&", "&", "table=")
def test_no_password_is_ever_shown(before, after, infix):
    secret = f"{SECRET}{before}{infix}{SECRET}{after}"
    for text in (
        f"postgresql://ann:{secret}@db.example.org/chat?table=t",
        f"postgresql://{secret}@db.example.org/chat?table=t",
        f"postgresql://db.example.org/chat?password={SECRET}&table=t",
        f"snowflake://ann:{secret}@account/db/schema?table=t",
        f"adbc+snowflake:ann:{secret}@account/db?table=t",
        f"adbc+snowflake:{secret}@a/db?query=SELECT 1",
        f"duckdb:x.db?query=SELECT '{secret}'",
        f"mysqlx://ann:{secret}@h/d?table=t",
    ):
        shown = redact(text)
        assert SECRET not in shown, shown
        assert SECRET not in redact_message(f"x: {text} and {Path(text)}", ["count", text])
        try:
            uri = parse_uri(text, {})
            shown = uri.name + repr(uri) + repr(parse_uri("env:X", {"X": text}))
        except UsageError as error:
            shown = str(error)
        assert SECRET not in shown


def test_what_is_shown():
    assert redact("wiki/a.csv") == "wiki/a.csv"
    assert redact("postgresql://a:b@h:5432/d/?x=1&table=t") == "postgresql://h:5432/d/?table=t"
    assert redact("postgresql:///d?host=/tmp&table=a@b") == "postgresql://…"
    assert (
        redact("bigquery://project/dataset?query=SELECT 1") == "bigquery://project/dataset?query=…"
    )
    assert redact("adbc+x:token@h?table=t") == "adbc+x:…?table=t"
    assert redact("duckdb: I like it, secretly") == "duckdb:…"  # a text, given where paths belong
    assert redact("https://user:token@h/x") == "https://…"
    assert redact("duckdb:md:db?motherduck_token=x&table=t") == "duckdb:md:db?table=t"
    assert (
        redact_message("wiki=postgresql://a:b@h/d: bad", ["vocab", "wiki=postgresql://a:b@h/d"])
        == "wiki=postgresql://h/d: bad"
    )
