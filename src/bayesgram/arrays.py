"""Short names for the types of NumPy arrays that the project passes around."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Bytes: TypeAlias = NDArray[np.uint8]
Bools: TypeAlias = NDArray[np.bool_]
Ids: TypeAlias = NDArray[np.int32]  # numbers of tokens, n-grams or users
Integers: TypeAlias = NDArray[np.int64]
Hashes: TypeAlias = NDArray[np.uint64]
Floats: TypeAlias = NDArray[np.float64]
Singles: TypeAlias = NDArray[np.float32]
