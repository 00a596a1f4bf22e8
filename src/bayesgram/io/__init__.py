"""Read tables of text, and write files whole or not at all.

Texts come from Parquet, Arrow, JSON lines, CSV, TSV, plain text and tables in memory.
`find_sources` finds the files, and `read_records` streams them as Arrow batches of bounded size; it
refuses, or counts, the rows that can't be used. No message holds text or a user id out of a row.
`atomic` writes outputs, and `spill` keeps on disk what does not fit in memory.
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
