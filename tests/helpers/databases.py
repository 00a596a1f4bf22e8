"""Made-up messages in databases of several kinds."""

import pyarrow as pa

ROWS = 9000  # more than two batches


def messages(rows=ROWS):
    """Users, texts, and columns that can't be ids."""
    numbers = range(rows)
    return pa.table(
        {
            "user": [f"u{number * 7919 % 500}" for number in numbers],
            "text": [
                f"the red fish {number % 97} swims to wall {number % 13}" for number in numbers
            ],
            "number": [float(number) for number in numbers],
        }
    )


def make_duckdb(path, **tables):
    """A DuckDB file with these tables."""
    import duckdb

    connection = duckdb.connect(path)
    for name, table in tables.items():
        connection.register("rows_of_it", table)
        quoted = name.replace('"', '""')
        connection.execute(f'CREATE TABLE "{quoted}" AS SELECT * FROM rows_of_it')
        connection.unregister("rows_of_it")
    connection.close()
    return path


def fill_postgres(server, name, table):
    """A table in the database of a server."""
    columns = ", ".join(
        f'"{field.name}" {"float8" if field.type == pa.float64() else "text"}'
        for field in table.schema
    )
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f'DROP TABLE IF EXISTS "{name}"')
        cursor.execute(f'CREATE TABLE "{name}" ({columns})')
        with cursor.copy(f'COPY "{name}" FROM STDIN') as copy:
            for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
                copy.write_row(row)
