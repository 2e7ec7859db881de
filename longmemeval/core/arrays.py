"""Names for the arrays that cross rooms."""

import numpy as np
from numpy.typing import NDArray

Vectors = NDArray[np.float32]
"""One embedding per row, shape (n, dimension)."""
Vector = NDArray[np.float32]
"""One embedding, shape (dimension,)."""
