"""Hold the update of any rule against autograd's gradient on the same batch: cosine, ratio of norms, signs.

For a parameter, a part or all together, with u the update and g the gradient of the mean loss, as one long vector each:

    cosine   ⟨u, g⟩ / (‖u‖·‖g‖)
    ratio    ‖u‖ / ‖g‖
    sign     share of the entries with u·g > 0 among those with u·g ≠ 0

By chance the cosine of n entries lies in ±1.96/√n and the share of signs in ½ ± 0.98/√n, in 95 of 100 cases. This holds
for directions without structure. Updates that are sums of few outer products spread wider.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, sqrt
from operator import add
from typing import Any

import torch
from torch import Tensor, nn

from faudit.errors import ModelError
from faudit.registry import nearest
from faudit.watch.net import Inputs, called, described, error_text, logits_of
from faudit.watch.reading import Loss

CHUNK = 1 << 17  # entries that are compared at a time
ORDINARY = (1e-25, 1e25)  # squared norms between which no product that counts underflows in float32
BAND = 1.96  # standard deviations in half of a 95 % interval


@dataclass(frozen=True)
class Agreement:
    """How far an update agrees with the gradient; None is undefined, because one of the two is zero."""

    cosine: float | None
    ratio: float | None
    sign: float | None
    count: int  # entries compared

    @property
    def chance(self) -> float | None:
        """Half the width of the 95 % interval of the cosine by chance."""
        return BAND / sqrt(self.count) if self.count else None

    @property
    def is_above_chance(self) -> bool:
        """Whether the cosine is above the band of chance."""
        return self.cosine is not None and self.chance is not None and self.cosine > self.chance


@dataclass(frozen=True)
class Comparison:
    """The agreement of an update with the gradient: over all parameters, by part and by parameter."""

    overall: Agreement
    parts: Mapping[str, Agreement]
    parameters: Mapping[str, Agreement]

    def row(self, parts: Sequence[str]) -> dict[str, Any]:
        """The entries of a row; a part without parameters is undefined."""
        none = Agreement(None, None, None, 0)
        found = [self.parts.get(part, none) for part in parts]
        return {
            "compare_cosine": self.overall.cosine,
            "compare_ratio": self.overall.ratio,
            "compare_sign": self.overall.sign,
            "compare_chance": self.overall.chance,
            "compare_cosines": [one.cosine for one in found],
            "compare_ratios": [one.ratio for one in found],
            "compare_signs": [one.sign for one in found],
        }

    def __str__(self) -> str:
        lines = [["", "cosine", "chance", "ratio", "signs", "entries"]]
        for name, one in [*self.parts.items(), ("all", self.overall)]:
            cells = [
                "–" if value is None else f"{value:.3g}" for value in (one.cosine, one.chance, one.ratio, one.sign)
            ]
            lines.append([name, cells[0], f"±{cells[1]}", *cells[2:], str(one.count)])
        widths = [max(len(line[place]) for line in lines) for place in range(6)]
        return "\n".join(
            "  ".join(
                [line[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(line[1:], widths[1:], strict=True))]
            )
            for line in lines
        )


def compared(updates: Mapping[str, Tensor], gradients: Mapping[str, Tensor], parts: Mapping[str, str]) -> Comparison:
    """Compare by parameter; a parameter without an update counts as zeros."""
    table = sums(updates, gradients)
    for name, (_, own, true, *_signs) in table.items():
        if not isfinite(own) or not isfinite(true):
            what = "gradient" if isfinite(own) else "update"
            raise ModelError(
                f"the {what} of {name!r}: expected finite numbers, got NaN or infinity. The comparison is left out. A "
                "GradScaler skips such a step."
            )
    counts = {name: gradient.numel() for name, gradient in gradients.items()}
    members: dict[str, list[str]] = {}
    for name in gradients:
        members.setdefault(parts[name], []).append(name)
    return Comparison(
        agreement(gradients, table, counts),
        {part: agreement(members[part], table, counts) for part in sorted(members, key=place)},
        {name: agreement([name], table, counts) for name in gradients},
    )


def place(part: str) -> tuple[int, int]:
    """The place of a part: embed, the blocks, readout."""
    return (1, int(part.partition(".")[2])) if part.startswith("blocks.") else (0 if part == "embed" else 2, 0)


def sums(updates: Mapping[str, Tensor], gradients: Mapping[str, Tensor]) -> dict[str, list[float]]:
    """⟨u, g⟩, ‖u‖², ‖g‖², and how many signs agree and disagree, for each parameter.

    Chunks of numbers of ordinary size are multiplied in their own precision and added in float64. This is several
    times faster than float64 alone, and exact to 1e-6. Squares that float32 cannot hold are computed in float64. The
    sums of all chunks are read at once: each read waits for the device.
    """
    chunks = [
        (name, u, g)
        for name, gradient in gradients.items()
        for u, g in chunks_of(updates.get(name), gradient.detach().to_dense().flatten())
    ]
    told = torch.stack([one for _, u, g in chunks for one in chunk_sums(u, g)]).tolist() if chunks else []
    table = {name: [0.0] * 5 for name in gradients}
    for at, (name, u, g) in enumerate(chunks):
        found = told[5 * at : 5 * at + 5]
        if not all(ORDINARY[0] < size < ORDINARY[1] for size in found[1:3]):
            found = [one.item() for one in chunk_sums(u.double(), g.double())]
        dot, own, true, more, both = found
        table[name] = [*map(add, table[name], (dot, own, true, (both + more) / 2, (both - more) / 2))]
    return table


def chunks_of(update: Tensor | None, gradient: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """An update and a flat gradient in parts that fit the cache; no update is zeros."""
    own = torch.zeros_like(gradient) if update is None else update.detach().to_dense().flatten().to(gradient.dtype)
    return zip(own.split(CHUNK), gradient.split(CHUNK), strict=True)


def chunk_sums(u: Tensor, g: Tensor) -> tuple[Tensor, ...]:
    """⟨u, g⟩, ‖u‖², ‖g‖², the signs that agree minus those that disagree, and both together.

    Sums of signs are whole numbers, exact in any precision. The sign of u stands for u, so that no product underflows.
    """
    signs = u.sign().mul_(g).sign_()
    return u @ g, u @ u, g @ g, signs.sum(), signs @ signs


def agreement(names: Iterable[str], table: Mapping[str, list[float]], counts: Mapping[str, int]) -> Agreement:
    """The agreement over some parameters from their sums."""
    names = list(names)
    dot, own, true, alike, unlike = map(sum, zip(*(table[name] for name in names), strict=True))
    both = bool(own and true)
    return Agreement(
        dot / (sqrt(own) * sqrt(true)) if both else None,
        sqrt(own / true) if both else None,
        alike / (alike + unlike) if alike + unlike else None,
        sum(counts[name] for name in names),
    )


def true_gradients(model: nn.Module, x: Inputs, y: Tensor, loss: Loss) -> dict[str, Tensor]:
    """Autograd's gradient of the mean loss of a batch at every parameter that requires one; zeros where unused."""
    asked = {name: value for name, value in model.named_parameters() if value.requires_grad}
    if not asked:
        raise ModelError("nothing to compare: expected parameters that require gradients, got a model without any.")
    mean = loss(logits_of(called(model, x)), y).mean()
    try:
        found = torch.autograd.grad(mean, list(asked.values()), allow_unused=True)
    except RuntimeError as error:
        raise ModelError(f"no gradient can be taken through the model: {error_text(error)}.") from error
    pairs = zip(asked.items(), found, strict=True)
    return {name: torch.zeros_like(value) if gradient is None else gradient for (name, value), gradient in pairs}


def updates_of(model: nn.Module, given: Mapping[str, Tensor] | None) -> dict[str, Tensor]:
    """The update of each parameter: its ``.grad``, or what the caller hands over; gradient-like, to be subtracted."""
    own = dict(model.named_parameters())
    if given is None:
        held = {name: value.grad for name, value in own.items() if value.grad is not None}
        if not held:
            raise ModelError(
                "nothing to compare: expected .grad of some parameter, got none. Call w.compare after the backward "
                "pass and before zero_grad, or give updates={name: tensor}."
            )
        return held
    if not isinstance(given, Mapping):
        raise ModelError(f"updates: expected a mapping from the names of parameters to tensors, got {described(given)}")
    for name, value in given.items():
        if name not in own:
            raise ModelError(f"updates: the model has no parameter {name!r}{nearest(name, own)}.")
        if not isinstance(value, Tensor) or value.shape != own[name].shape:
            raise ModelError(
                f"updates: {name!r}: expected the shape of the parameter, {list(own[name].shape)}, got "
                f"{described(value)}"
            )
        if value.is_complex() or value.device != own[name].device:
            raise ModelError(
                f"updates: {name!r}: expected real numbers on the device of the parameter, {own[name].device}, got "
                f"{described(value)} on {value.device}"
            )
    return dict(given)
