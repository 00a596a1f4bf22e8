"""Read the bytes of a file, decompressed, in blocks of whole lines; and read plain text.

`open_stream` opens a `Source`, `line_blocks` yields its blocks, and `read_text` gives one record
for each line of plain text. No more than a block is in memory, or one line where a line is longer.

`TranscodedContent` turns another encoding into UTF-8.

`XzContent` decompresses xz, which Arrow can't. Python's own `lzma.open` silently ignores whatever
follows the first stream.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from lzma import FORMAT_XZ, LZMADecompressor, LZMAError
from typing import Literal, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from bayesgram.errors import Argument, BayesgramError
from bayesgram.io.inputs import Source, check_first_bytes
from bayesgram.io.records import UTF_8, Chunk, as_bytes

BLOCK_BYTES = 1 << 23  # that are read at a time; not measured
LINE_BYTES = 1 << 28  # longer lines are refused: they would not fit in memory several times over
_PACKED_BYTES = 1 << 16  # of an xz file that are read at a time; not measured
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

_CODECS: dict[str, Literal["gzip", "zstd", "bz2"]] = {"gz": "gzip", "zst": "zstd", "bz2": "bz2"}


class Content(Protocol):
    """Bytes that are read from first to last."""

    def read(self, size: int, /) -> bytes:
        """Return `size` bytes, or fewer at the end of the file; none after it."""


@dataclass(frozen=True)
class ByteStream:
    """An open file."""

    content: Content  # decompressed
    disk: pa.NativeFile  # the file itself

    @property
    def position(self) -> int:
        """Bytes of the file read so far."""
        return int(self.disk.tell())


@contextmanager
def open_stream(source: Source, encoding: str = UTF_8) -> Iterator[ByteStream]:
    """Open a file for reading from its start; text in another encoding becomes UTF-8."""
    with _open_bytes(source) as stream:
        if encoding == UTF_8:
            yield stream
        else:
            yield ByteStream(TranscodedContent(stream.content, source.name, encoding), stream.disk)


@contextmanager
def _open_bytes(source: Source) -> Iterator[ByteStream]:
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
    """Yield blocks that end with a newline, but for the last.

    A byte order mark at the start is dropped.
    """
    pending = [b""]  # what was read after the last newline
    pending_size = 0
    line = 1  # the number of the line that `pending` begins
    mark = BYTE_ORDER_MARK  # what the next block may begin with
    while data := stream.content.read(BLOCK_BYTES):
        if mark and len(pending) == 1:
            check_first_bytes(source, data)
        cut = data.rfind(b"\n") + 1
        if cut:
            block = b"".join([*pending, data[:cut]])
            yield block.removeprefix(mark)
            pending = []
            pending_size = 0
            line += block.count(b"\n")
            mark = b""
        pending.append(data[cut:])
        pending_size += len(data) - cut
        if pending_size > LINE_BYTES:
            raise BayesgramError(
                f"{source.name}: row {line}: longer than {LINE_BYTES >> 20} MB. Split the row."
            )
    if last := b"".join(pending).removeprefix(mark):
        yield last


def read_text(source: Source, encoding: str = UTF_8) -> Iterator[Chunk]:
    """Yield chunks of plain text: every line is one record, without its line end."""
    with open_stream(source, encoding) as stream:
        row = 1
        for block in line_blocks(stream, source):
            ended = block if block.endswith(b"\n") else block + b"\n"
            lines = pa.array([ended.replace(b"\r\n", b"\n")[:-1]], pa.large_binary())
            text = as_bytes(pc.split_pattern(lines, pattern="\n").flatten())
            yield Chunk(text, None, range(row, row + len(text)), stream.position)
            row += len(text)


class TranscodedContent:
    """Content in an encoding with one byte for each character, as UTF-8."""

    def __init__(self, content: Content, source_name: str, encoding: str) -> None:
        self._content = content
        self._source_name = source_name
        self._encoding = encoding

    def read(self, size: int, /) -> bytes:
        """Return the next `size` characters, or fewer at the end; none after it."""
        data = self._content.read(size)
        try:
            return data.decode(self._encoding).encode()
        except UnicodeDecodeError:
            problem = f"{self._source_name}: holds bytes that {self._encoding} does not have. Name "
        raise BayesgramError(problem, "the right ", Argument("encoding"), ".")


class XzContent:
    """The content of an xz file: streams one after the other, perhaps with zeros between them."""

    def __init__(self, disk: pa.NativeFile) -> None:
        self._disk = disk
        self._decoder = LZMADecompressor(FORMAT_XZ)

    def read(self, size: int, /) -> bytes:
        """Return `size` bytes, or fewer at the end of the file; none after it."""
        parts: list[bytes] = []
        while size and (part := self._read_part(size)):
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def _read_part(self, size: int) -> bytes:
        """Return up to `size` bytes; none at the end."""
        while True:
            packed = b""
            if self._decoder.eof:
                packed = self._skip_zeros(self._decoder.unused_data)
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

    def _skip_zeros(self, packed: bytes) -> bytes:
        """Return what begins the next stream; nothing at the end of the file."""
        packed = packed.lstrip(b"\0")
        while not packed and (more := self._disk.read(_PACKED_BYTES)):
            packed = more.lstrip(b"\0")
        return packed
