"""The content of an xz file, which Arrow can't read.

In:  an open file.   Out: its bytes, decompressed as they are asked for.
Does not use Python's own `lzma.open`, which takes whatever follows the first stream for nothing, and says nothing.

Bytes of a file, decompressed, and plain text.

In:  a `Source`.   Out: blocks of whole lines; for plain text, one record for each line.
Does not hold more than a block, or one line where a line is longer than a block.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from lzma import FORMAT_XZ, LZMADecompressor, LZMAError
from typing import Literal, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from bayesgram.errors import BayesgramError
from bayesgram.io.inputs import Source, check_first_bytes
from bayesgram.io.records import Chunk, as_bytes

_PACKED_BYTES = 1 << 16  # read at a time


class XzContent:
    """Streams of xz one after the other, with zeros between them if need be, as the format allows."""

    def __init__(self, disk: pa.NativeFile) -> None:
        self._disk, self._decoder = disk, LZMADecompressor(FORMAT_XZ)

    def read(self, size: int, /) -> bytes:
        """As many bytes, or fewer at the end; none after it."""
        parts: list[bytes] = []
        while size and (part := self._some(size)):
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def _some(self, size: int) -> bytes:
        while True:
            packed = b""
            if self._decoder.eof:
                packed = self._after_zeros(self._decoder.unused_data)
                if not packed:
                    return b""
                self._decoder = LZMADecompressor(FORMAT_XZ)
            elif self._decoder.needs_input and not (packed := self._disk.read(_PACKED_BYTES)):
                raise OSError("the file ends within a stream")
            try:
                part = self._decoder.decompress(packed, size)
            except LZMAError:
                raise OSError("not a stream of xz") from None
            if part:
                return part

    def _after_zeros(self, packed: bytes) -> bytes:
        """What begins the next stream."""
        packed = packed.lstrip(b"\0")
        while not packed and (more := self._disk.read(_PACKED_BYTES)):
            packed = more.lstrip(b"\0")
        return packed


BLOCK_BYTES = 1 << 23
LINE_BYTES = 1 << 28  # longer lines are refused: they would not fit in memory several times over
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

_CODECS: dict[str, Literal["gzip", "zstd", "bz2"]] = {"gz": "gzip", "zst": "zstd", "bz2": "bz2"}


class Content(Protocol):
    """Bytes that are read from first to last."""

    def read(self, size: int, /) -> bytes:
        """As many bytes, or fewer at the end; none after it."""


@dataclass(frozen=True)
class ByteStream:
    """An open file: `content` is decompressed, `disk` is the file itself."""

    content: Content
    disk: pa.NativeFile

    @property
    def position(self) -> int:
        """Bytes of the file read so far."""
        return int(self.disk.tell())


@contextmanager
def open_stream(source: Source) -> Iterator[ByteStream]:
    """Open a file for reading from its start."""
    with pa.OSFile(str(source.path), "rb") as disk:
        if source.compression is None:
            yield ByteStream(disk, disk)
            return
        if source.size == 0:
            raise OSError("a compressed file has at least a header")
        if source.compression == "xz":
            yield ByteStream(XzContent(disk), disk)
            return
        with pa.CompressedInputStream(disk, _CODECS[source.compression]) as content:
            yield ByteStream(content, disk)


def line_blocks(stream: ByteStream, source: Source) -> Iterator[bytes]:
    """Yield blocks that end with a newline, but for the last; a byte order mark at the start is dropped."""
    pending, size, line, mark = [b""], 0, 1, BYTE_ORDER_MARK
    while data := stream.content.read(BLOCK_BYTES):
        if mark and len(pending) == 1:
            check_first_bytes(source, data)
        cut = data.rfind(b"\n") + 1
        if cut:
            block = b"".join([*pending, data[:cut]])
            yield block.removeprefix(mark)
            pending, size, line, mark = [], 0, line + block.count(b"\n"), b""
        pending.append(data[cut:])
        size += len(data) - cut
        if size > LINE_BYTES:
            raise BayesgramError(
                f"{source.name}: row {line}: longer than {LINE_BYTES >> 20} MB. Split the row."
            )
    if last := b"".join(pending).removeprefix(mark):
        yield last


def read_text(source: Source) -> Iterator[Chunk]:
    """Every line is one record, without its line end."""
    with open_stream(source) as stream:
        row = 1
        for block in line_blocks(stream, source):
            ended = block if block.endswith(b"\n") else block + b"\n"
            lines = pa.array([ended.replace(b"\r\n", b"\n")[:-1]], pa.large_binary())
            text = as_bytes(pc.split_pattern(lines, pattern="\n").flatten())
            yield Chunk(text, None, range(row, row + len(text)), stream.position)
            row += len(text)
