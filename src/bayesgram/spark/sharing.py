"""Public objects that all tasks need: a vocabulary, a public model, what is measured of users.

`share` packs an object once, on the driver, and `Shared.value` unpacks it in a task, once in every
Python worker. Small ones travel within the function that tasks run, and so do all of them in a
classic session, where Spark broadcasts functions of more than 1 MB. Over Spark Connect a function
is a part of every message about the DataFrame, and a message has at most 128 MB; there, larger
objects are uploaded once as a file of the session, in pieces of 32 KB, whatever their size.
"""

import hashlib
import pickle
import tempfile
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, cast

from bayesgram.spark.session import is_remote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Value = TypeVar("Value")

# Bytes of an object that travels within a function over Spark Connect. Spark's own limit, beyond
# which a classic session broadcasts a function (spark.broadcast.UDFCompressionThreshold).
MAX_INLINE_BYTES = 1 << 20

# Unpacked objects that a Python worker keeps: that of this query, and of the one before.
MAX_UNPACKED = 2


@dataclass(frozen=True, repr=False)
class Shared(Generic[Value]):
    """An object on its way to tasks.

    Attributes:
        digest: The SHA-256 of the packed object, which names it.
        packed: The packed object; None if it is a file of the session.
    """

    _unpacked: ClassVar[OrderedDict[str, Any]] = OrderedDict()

    digest: str
    packed: bytes | None

    @property
    def value(self) -> Value:
        """The object; tasks of one Python worker get the same one, and must not change it."""
        unpacked = Shared._unpacked
        if self.digest not in unpacked:
            while len(unpacked) >= MAX_UNPACKED:
                unpacked.popitem(last=False)
            unpacked[self.digest] = pickle.loads(self._read())  # noqa: S301 - made by `share`
        unpacked.move_to_end(self.digest)
        return cast("Value", unpacked[self.digest])

    def _read(self) -> bytes:
        if self.packed is not None:
            return self.packed
        from pyspark import SparkFiles  # noqa: PLC0415 - an extra

        return Path(SparkFiles.get(_file_name(self.digest))).read_bytes()


def share(session: "SparkSession", value: Value) -> Shared[Value]:
    """Pack an object for the tasks of a session.

    Args:
        session: The Spark session.
        value: The object; it must be public, as nobody deletes it before the session ends.
    """
    from pyspark.serializers import CloudPickleSerializer  # noqa: PLC0415 - an extra

    packed: bytes = CloudPickleSerializer().dumps(value)
    digest = hashlib.sha256(packed).hexdigest()
    if is_remote(session) and len(packed) > MAX_INLINE_BYTES:
        _upload(session, _file_name(digest), packed)
        return Shared(digest, None)
    return Shared(digest, packed)


def _file_name(digest: str) -> str:
    return f"bayesgram-{digest}.pickle"


def _upload(session: "SparkSession", name: str, packed: bytes) -> None:
    """Make a file of the session, which every executor gets."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, name)
        file.write_bytes(packed)
        session.addArtifacts(str(file), file=True)
