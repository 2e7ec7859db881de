"""Type names of the arrays shared between packages."""

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
"""One embedding per row, shape (n, dimension)."""
Vector = NDArray[np.float32]
"""One embedding, shape (dimension,)."""
