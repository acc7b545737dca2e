"""The two forms of the matrix product agree."""

from __future__ import annotations

import numpy as np
import pytest

from rushlight.ops.product import blocked_product, product


@pytest.mark.parametrize(("n", "m", "k"), [(1, 7, 32), (3, 5000, 96), (7, 1, 640), (2, 33, 5)])
def test_blocked_product_equals_blas(n: int, m: int, k: int) -> None:
    rng = np.random.default_rng(n * m)
    a, b = (rng.standard_normal((rows, k)).astype(np.float32) for rows in (n, m))
    expected = a.astype(np.float64) @ b.astype(np.float64).T
    for result in (product(a, b), blocked_product(a, b)):
        assert result.dtype == np.float32 and result.shape == (n, m)
        assert np.abs(result - expected).max() <= 1e-5 * np.abs(expected).max()
