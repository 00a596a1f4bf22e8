"""URIs of tables in databases: what they name, and how a message shows them.

    duckdb:PATH?table=NAME                    a table or view of a DuckDB file
    postgresql://HOST/DATABASE?table=NAME     a table of a PostgreSQL server
    bigquery://…, snowflake://…, …            a database that Ibis reaches
    adbc+DRIVER:URI?table=NAME                a database that an ADBC driver reaches
    env:VARIABLE?table=NAME                   a database whose URI is in an environment variable

In place of `table=`, `query=` takes SQL; it is the last parameter, and is read as it is, without
percent escapes. `query=@PATH` reads the SQL from a file.

Formal guarantee: `DatabaseUri.name`, `redact` and every message of this module show nothing of a
URI but its scheme, its host, its path and its table, each only if it can't hold credentials; never
a user, a password, another parameter, a query, or the value of an environment variable.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, TypeAlias
from urllib.parse import unquote

from bayesgram.errors import BayesgramError, UsageError

Interface: TypeAlias = Literal["duckdb", "postgresql", "ibis", "adbc"]

ENVIRONMENT = "env"
DUCKDB = "duckdb"
POSTGRESQL = frozenset({"postgresql", "postgres"})
# Backends of Ibis that have a URI and run SQL.
IBIS = frozenset(
    (
        *("athena", "bigquery", "clickhouse", "databricks", "druid", "exasol", "impala"),
        *("materialize", "mssql", "mysql", "oracle", "risingwave", "singlestoredb", "snowflake"),
        *("sqlite", "trino"),
    )
)
# Extras of this package that bring the driver of a scheme of Ibis; others need Ibis' own extra.
_IBIS_EXTRAS = frozenset({"bigquery", "databricks", "snowflake"})
_DRIVER_MODULES = {"duckdb": "duckdb", "postgresql": "adbc_driver_postgresql", "ibis": "ibis"}

_OWN_SCHEME = re.compile(r"(env|duckdb|adbc\+[a-z0-9_.-]+):", re.IGNORECASE)
_ANY_SCHEME = re.compile(r"([a-z][a-z0-9+.-]+)://", re.IGNORECASE)
# An address that can be shown but for what stands before its "@". Nothing else may have an "@": a
# password that is not escaped ends somewhere else than it seems to.
_ADDRESS = re.compile(
    r"(?P<scheme>[a-z0-9+.-]+)://"
    r"([^/?#@]*@)?"
    r"(?P<host>[a-z0-9.-]*(:[0-9]{1,5})?)"
    r"(?P<path>(/[a-z0-9_.-]+)*/?)"
    r"(\?[^@]*)?",
    re.IGNORECASE,
)
_TABLE = re.compile(r"([?&])table=([^&]*)(&?)")
_QUERY = re.compile(r"[?&]query=")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HIDDEN = "…"
_LONGEST_TABLE = 200  # characters of a table's name in a message

HOW_TO_NAME = "Add ?table=NAME, or ?query=SELECT … as the last parameter."
SCHEMES = (
    "duckdb:PATH, postgresql://HOST/DATABASE, those of Ibis (such as bigquery://, snowflake:// and"
    " trino://), adbc+DRIVER:URI and env:VARIABLE"
)


@dataclass(frozen=True)
class DatabaseUri:
    """A table or a query of a database."""

    interface: Interface
    name: str  # for messages: without what is secret
    connection: str = field(repr=False)  # what the driver connects to; it may hold a password
    driver: str  # of Ibis, the backend; of ADBC, the driver
    table: tuple[str, ...] = ()  # the parts of its name, such as schema and table
    query: str | None = field(default=None, repr=False)
    path: Path | None = None  # of a DuckDB file

    @property
    def extra(self) -> str:
        """What `pip install` takes to bring the driver."""
        if self.interface == "adbc":
            return f"'bayesgram[adbc]' adbc-driver-{self.driver}"
        if self.interface != "ibis":
            return (
                "'bayesgram[postgres]'" if self.interface == "postgresql" else "'bayesgram[duckdb]'"
            )
        if self.driver in _IBIS_EXTRAS:
            return f"'bayesgram[{self.driver}]'"
        return f"'bayesgram[ibis]' 'ibis-framework[{self.driver}]'"

    def check_driver(self) -> None:
        """Refuse a database whose driver is not installed, before any work."""
        module = _DRIVER_MODULES.get(self.interface, "adbc_driver_manager")
        if find_spec(module) is None:
            raise missing_driver_error(self)

    def check_file(self) -> None:
        """Refuse a DuckDB file that does not exist: it would be looked for only later."""
        if self.path is None or self.path.is_file():
            return
        problem = "is a folder" if self.path.is_dir() else "no such file"
        raise UsageError(
            f"{self.name}: {problem}. Check the path between 'duckdb:' and '?'; it is that of a"
            " DuckDB database."
        )


def missing_driver_error(uri: DatabaseUri) -> UsageError:
    """Return the error that a package is missing, with the command that installs it."""
    return UsageError(
        f"{uri.name}: the package that reads it is not installed: `pip install {uri.extra}`."
    )


def is_uri(text: object) -> bool:
    """Return whether a string is a URI, of a kind that is read or not; a path never is one.

    >>> [is_uri(text) for text in ("duckdb:x.duckdb?table=t", "s3://bucket", "C:/x", "./a:b")]
    [True, True, False, False]
    """
    return isinstance(text, str) and bool(_OWN_SCHEME.match(text) or _ANY_SCHEME.match(text))


def is_database_uri(text: object) -> bool:
    """Return whether a string is a URI of a kind that is read here.

    >>> is_database_uri("postgres://db/x"), is_database_uri("s3://bucket")
    (True, False)
    """
    if not isinstance(text, str):
        return False
    other = _ANY_SCHEME.match(text)
    scheme = "" if other is None else other[1].lower()
    return bool(_OWN_SCHEME.match(text)) or scheme in POSTGRESQL or scheme in IBIS


def local_path(text: str | os.PathLike[str]) -> Path | None:
    """Return the file or folder that an input names; None for a database elsewhere.

    >>> [str(local_path(text)) for text in ("x.csv", "duckdb:x.duckdb?table=t", "mysql://h/d")]
    ['x.csv', 'x.duckdb', 'None']
    """
    if not isinstance(text, str) or not is_uri(text):
        return Path(text)
    if not text.lower().startswith(f"{DUCKDB}:"):
        return None
    return _duckdb_path(text.partition(":")[2].partition("?")[0])


def to_input(text: str) -> str | Path:
    """Return what was typed as an input: a URI as it is, and all else as a path.

    An error may quote a path, but no other string.
    """
    return text if is_uri(text) else Path(text)


def redact(text: str) -> str:
    """Return a URI as messages show it; any other text as it is.

    >>> redact("postgresql://ann:secret@db.example.org/chat?sslmode=require&table=messages")
    'postgresql://db.example.org/chat?table=messages'
    >>> redact("postgresql://ann:se@cr/et@db/chat?query=SELECT 1"), redact("messages.csv")
    ('postgresql://…?query=…', 'messages.csv')
    """
    if not is_uri(text):
        return text
    address, table, query = _split(text)
    shown = ""
    if query is not None:
        shown = f"?query={_HIDDEN}"
    elif table is not None:
        shown = f"?table={_show_table(table)}"
    if query is not None and "@" in query and _ANY_SCHEME.match(address):
        # What seems to be SQL may be part of a password that is not escaped.
        return f"{address.partition('://')[0].lower()}://{_HIDDEN}{shown}"
    return f"{_show_address(address, is_table=bool(shown))}{shown}"


def redact_message(message: str, words: list[str]) -> str:
    """Return a message in which each URI among the words of a command is redacted.

    It is for messages about a command that can't be read, and for URIs where a path belongs.
    """
    for word in sorted(words, key=len, reverse=True):
        for text in (word, word.partition("=")[2]):
            if is_uri(text):
                shown = redact(text)
                message = message.replace(text, shown).replace(str(Path(text)), shown)
    return message


def parse_uri(text: str, variables: Mapping[str, str] = os.environ) -> DatabaseUri:
    """Return what a URI names.

    Args:
        text: The URI.
        variables: The environment variables.

    Raises:
        UsageError: If it is of an unknown kind, or names no table and no query.

    >>> parse_uri("duckdb:chat.duckdb?table=main.messages").table
    ('main', 'messages')
    """
    if text.lower().startswith(f"{ENVIRONMENT}:"):
        return _parse_variable(text, variables)
    name = redact(text)
    address, table, query = _split(text)
    uri = _parse_address(address, name)
    if query is not None and table is not None:
        raise UsageError(f"{name}: has table= and query=; give one of them.")
    if query is None and table is None:
        raise UsageError(f"{name}: names no table. {HOW_TO_NAME}")
    if query is not None:
        return replace(uri, query=_read_query(query, name))
    if uri.interface == "duckdb" and uri.path is None:
        raise UsageError(f"{name}: names no file. Write duckdb:PATH?table=NAME.")
    return replace(uri, table=_split_table(table or "", name))


def quote_table(parts: tuple[str, ...]) -> str:
    """Return the name of a table in standard SQL, every part of it quoted.

    >>> print(quote_table(("main", 'my "best" table')))
    "main"."my ""best"" table"
    """
    return ".".join(map(quote_name, parts))


def quote_name(name: str) -> str:
    """Return the name of a column or a table in standard SQL."""
    return '"' + name.replace('"', '""') + '"'


# --- Parts of a URI ---


def _split(text: str) -> tuple[str, str | None, str | None]:
    """Return the address, and the values of `table` and `query`; None where there is none."""
    query = None
    if match := _QUERY.search(text):
        query = text[match.end() :]
        text = text[: match.start()]
    # A password that is not escaped may look like a parameter.
    own = _OWN_SCHEME.match(text)
    is_file = own is not None and own[1].lower() == DUCKDB
    match = _TABLE.search(text, 0 if is_file else text.rfind("@") + 1)
    if match is None:
        return text, None, query
    # "?table=t&x=1" leaves "?x=1", and "?x=1&table=t" leaves "?x=1".
    separator = match[1] if match[3] else ""
    return text[: match.start()] + separator + text[match.end() :], unquote(match[2]), query


def _show_address(address: str, *, is_table: bool) -> str:
    own = _OWN_SCHEME.match(address)
    if own is None:
        match = _ADDRESS.fullmatch(address)
        scheme = address.partition("://")[0].lower()
        if match is None or not is_database_uri(address):
            return f"{scheme}://{_HIDDEN}"
        return f"{scheme}://{match['host']}{match['path']}"
    scheme, rest = own[1].lower(), address[own.end() :].partition("?")[0]
    if scheme == ENVIRONMENT:
        return f"{scheme}:{rest if _VARIABLE.fullmatch(rest) else _HIDDEN}"
    # With spaces and no table it may be no URI at all, but somebody's text.
    is_path = is_table or not re.search(r"\s", rest)
    may_be_shown = scheme == DUCKDB and is_path and "://" not in rest and "@" not in rest
    return f"{scheme}:{rest if may_be_shown else _HIDDEN}"


def _show_table(table: str) -> str:
    is_name = len(table) <= _LONGEST_TABLE and not any(sign in table for sign in "@=/")
    return table if is_name and table.isprintable() else _HIDDEN


def _parse_variable(text: str, variables: Mapping[str, str]) -> DatabaseUri:
    """Return what `env:VARIABLE?table=NAME` names; the table may be in the variable instead."""
    shown = redact(text)
    variable, separator, own = text.partition(":")[2].partition("?")
    if not _VARIABLE.fullmatch(variable):
        raise UsageError(
            f"{shown}: names no environment variable. Write env:NAME?table=TABLE; the variable NAME"
            " holds the URI of the database."
        )
    value = variables.get(variable, "").strip()
    if not value:
        raise UsageError(
            f"{shown}: the environment variable {variable} is not set, or empty. Let it hold the"
            " URI of a database, such as postgresql://HOST/DATABASE."
        )
    if not is_database_uri(value) or value.lower().startswith(f"{ENVIRONMENT}:"):
        raise UsageError(
            f"{shown}: the value of the environment variable {variable} (which is not shown) is no"
            f" URI of a database. The URIs that are read: {SCHEMES.rpartition(' and ')[0]}."
        )
    _, table, query = _split(value)
    if separator:
        if (table, query) != (None, None):
            raise UsageError(
                f"{shown}: the environment variable {variable} names a table or a query too. Write"
                f" env:{variable} alone, or take it out of the variable."
            )
        value += ("&" if "?" in value else "?") + own
    if not separator and query is not None:
        shown += f"?query={_HIDDEN}"
    elif not separator and table is not None:
        shown += f"?table={_show_table(table)}"
    try:
        uri = parse_uri(value, {})
    except BayesgramError as error:
        # Its message begins with the redacted value, in place of the variable.
        problem = str(error).removeprefix(redact(value))
        raise type(error)(f"{shown}{problem}") from None
    return replace(uri, name=shown)


def _parse_address(address: str, name: str) -> DatabaseUri:
    scheme, _, rest = address.partition(":")
    scheme = scheme.lower()
    if scheme == DUCKDB:
        path, separator, _ = rest.partition("?")
        if separator:
            raise UsageError(
                f"{name}: has a parameter that is neither table nor query. {HOW_TO_NAME}"
            )
        file = _duckdb_path(path)
        return DatabaseUri("duckdb", name, path, DUCKDB, path=file)
    if scheme.startswith("adbc+"):
        return DatabaseUri("adbc", name, rest, scheme.removeprefix("adbc+"))
    if scheme in POSTGRESQL:
        return DatabaseUri("postgresql", name, f"postgresql:{rest}", "postgresql")
    if scheme in IBIS:
        return DatabaseUri("ibis", name, f"{scheme}:{rest}", scheme)
    if scheme in ("s3", "gs", "gcs", "az", "abfs", "abfss", "hdfs", "http", "https", "hf"):
        advice = (
            "Spark reads files elsewhere, and so does DuckDB, where its extension is installed"
            " (bayesgram docs duckdb)."
        )
    elif scheme == "file":
        advice = "Give the path alone, without file://."
    else:
        advice = f"The URIs that are read: {SCHEMES}."
    raise UsageError(f"{name}: {scheme}:// is not read. {advice}")


def _duckdb_path(text: str) -> Path | None:
    """Return the path in duckdb:PATH, duckdb://PATH or duckdb:///PATH; None for no file."""
    path = text.removeprefix("//")
    return None if path in ("", ":memory:") else Path(path)


def _split_table(text: str, name: str) -> tuple[str, ...]:
    """Return the parts of a table's name; a part with a dot stands in double quotes.

    >>> _split_table('main."a.b"', "")
    ('main', 'a.b')
    """
    parts = []
    rest = f".{text}"
    while rest:
        match = re.match(r'\.(?:"((?:[^"]|"")+)"(?=\.|$)|([^."][^.]*))', rest, re.DOTALL)
        if match is None or "\0" in match[0]:
            raise UsageError(
                f"{name}: is no name of a table. Write NAME or SCHEMA.NAME; a name with a dot in it"
                ' stands in double quotes, as in main."a.b".'
            )
        parts.append(match[2] if match[1] is None else match[1].replace('""', '"'))
        rest = rest[match.end() :]
    return tuple(parts)


def _read_query(text: str, name: str) -> str:
    """Return the SQL of `query=`, or of the file that `query=@PATH` names."""
    query = text
    if text.startswith("@"):
        file = Path(text[1:])
        try:
            query = file.read_text(encoding="utf-8-sig")
        except (OSError, ValueError):
            raise UsageError(
                f"{name}: the file after query=@ can't be read as text in UTF-8. Check its path and"
                " its permissions."
            ) from None
    query = query.strip().removesuffix(";").rstrip()
    if not query:
        raise UsageError(f"{name}: the query is empty. {HOW_TO_NAME}")
    return query
