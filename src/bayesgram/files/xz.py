"""The content of an xz file, which Arrow can't read.

In:  an open file.   Out: its bytes, decompressed as they are asked for.
Does not use Python's own `lzma.open`, which takes whatever follows the first stream for nothing, and says nothing.
"""

from lzma import FORMAT_XZ, LZMADecompressor, LZMAError

import pyarrow as pa

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
