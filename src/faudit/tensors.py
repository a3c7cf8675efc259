"""Pure functions of per-sample vectors, computed in float64, and the way of a tensor to a device.

``None`` means that a number is undefined or was not measured. A non-finite float means that it overflowed.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def sent(host: Tensor, device: torch.device) -> Tensor:
    """A CPU tensor on a device. From pinned memory the copy runs beside the computation, and nothing waits for it."""
    return host if device.type == "cpu" else host.pin_memory().to(device, non_blocking=True)


def norms(vectors: Tensor) -> Tensor:
    """L2 norm of each sample, [n, …] → float64 [n].

    Computed in float64, because the square of a float32 overflows above 2e19 and underflows below 1e-23.

    >>> norms(torch.tensor([[3.0, 4.0], [0.0, 2.0]])).tolist()
    [5.0, 2.0]
    """
    sizes: Tensor = torch.linalg.vector_norm(vectors.flatten(1), dim=1, dtype=torch.float64)
    return sizes


def cosines(a: Tensor, b: Tensor) -> Tensor:
    """cos(a_i, b_i) of each sample, float64 [n]; NaN where either vector is zero or not finite.

    Each vector is divided by its norm without a clamp, so the cosine of two vectors of norm 1e-30 is correct.

    >>> cosines(torch.tensor([[1e-30, 0.0], [0.0, 0.0]]), torch.tensor([[1e-30, 0.0], [1.0, 0.0]])).tolist()
    [1.0, nan]
    """
    a, b = a.flatten(1).double(), b.flatten(1).double()
    a = a / torch.linalg.vector_norm(a, dim=1, keepdim=True)
    b = b / torch.linalg.vector_norm(b, dim=1, keepdim=True)
    return (a * b).sum(dim=1)


def mean_defined(values: Tensor) -> tuple[float | None, int]:
    """Mean of the defined (not NaN) values, or None if there is none; and the number of undefined values.

    >>> mean_defined(torch.tensor([0.25, math.nan, 0.75]))
    (0.5, 1)
    >>> mean_defined(torch.tensor([math.nan]))
    (None, 1)
    """
    defined = values[~values.isnan()]
    undefined = len(values) - len(defined)
    return (float(defined.mean()) if len(defined) else None), undefined


def median(values: Tensor) -> float:
    """The median: the mean of the two middle values for an even count, NaN if any value is NaN.

    >>> median(torch.tensor([4.0, 1.0, 3.0, 2.0]))
    2.5
    """
    ordered = values.double().sort().values
    if bool(ordered.isnan().any()):
        return math.nan
    half = len(ordered) // 2
    if len(ordered) % 2:
        return float(ordered[half])
    low, high = float(ordered[half - 1]), float(ordered[half])
    return low if low == high else 0.5 * low + 0.5 * high


class Correlation:
    """Pearson r of each row, accumulated in float64 over columns that arrive in chunks.

    The sums are of differences from the first column, so a large common offset costs no precision.

    >>> pairs = Correlation(2)  # two rows; the second never changes on one side
    >>> pairs.add(torch.tensor([[1.0, 1.0, 3.0, 3.0]] * 2), torch.tensor([[6.0, 6.0, 4.0, 4.0], [5.0] * 4]))
    >>> pairs.per_row().tolist()
    [-1.0, nan]
    """

    def __init__(self, *rows: int) -> None:
        self.count = 0
        self.sums = torch.zeros(5, *rows, dtype=torch.float64)  # Σx, Σy, Σx², Σy², Σxy of each row
        self.origin = torch.zeros(2, *rows, dtype=torch.float64)

    def add(self, x: Tensor, y: Tensor) -> None:
        """Add columns: x and y are [*rows, columns]; y may lack leading dimensions and is then broadcast."""
        x, y = x.double().cpu(), y.double().cpu()
        if self.count == 0:
            self.origin[0], self.origin[1] = x[..., 0], y[..., 0]
        x, y = x - self.origin[0, ..., None], y - self.origin[1, ..., None]
        for total, term in zip(self.sums, (x, y, x * x, y * y, x * y), strict=True):
            total += term.sum(dim=-1)
        self.count += x.shape[-1]

    def per_row(self) -> Tensor:
        """r of each row; NaN where x or y is constant."""
        sx, sy, sxx, syy, sxy = self.sums
        n = self.count
        return _pearson(sxx - sx * sx / n, syy - sy * sy / n, sxy - sx * sy / n)

    def pooled(self) -> float | None:
        """r over all rows and columns together."""
        n, rows = self.count, self.sums[0].numel()
        sx, sy, sxx, syy, sxy = self.sums
        ox, oy = self.origin
        mx, my = (ox.mean() + sx.sum() / (n * rows)), (oy.mean() + sy.sum() / (n * rows))
        dx, dy = ox - mx, oy - my  # Σ (x + o − m)² = Σx² + 2(o − m)Σx + n(o − m)²
        xx = (sxx + 2 * dx * sx + n * dx * dx).sum()
        yy = (syy + 2 * dy * sy + n * dy * dy).sum()
        xy = (sxy + dx * sy + dy * sx + n * dx * dy).sum()
        r = float(_pearson(xx, yy, xy))
        return None if math.isnan(r) else r


def _pearson(xx: Tensor, yy: Tensor, xy: Tensor) -> Tensor:
    """r from centred sums of squares and products."""
    return xy / (xx.clamp(min=0).sqrt() * yy.clamp(min=0).sqrt())
