"""Reading tables of text (Parquet, Arrow, JSON lines, CSV, TSV, plain), and writing files whole or not at all.

Does: find the files (`find_sources`), stream them as Arrow batches of bounded size (`read_records`), and
refuse, or count, the rows that can't be used. No message of the readers holds text or a user id out of a row.

Does not: tokenise, count, or hold more than a few batches in memory.
"""

from bayesgram.io.inputs import Source, find_sources, list_unread
from bayesgram.io.readers import RecordReader, no_rows_error, read_records
from bayesgram.io.records import BadRows, Records

__all__ = [
    "BadRows",
    "RecordReader",
    "Records",
    "Source",
    "find_sources",
    "list_unread",
    "no_rows_error",
    "read_records",
]
