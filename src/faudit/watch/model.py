"""Audit any ``nn.Module``: measure it at named submodules and judge it like a run.

The audit measures hidden norms, gradient norms, precision and stability. With a credit callable it also measures Γ, ρ
and their nulls. It measures copies (``watch/copies.py``), so the model itself does not change: weights, buffers,
``.grad``, hooks, mode and generators stay the same to the last bit. The null of a credit is the credit under fresh
feedback if the caller can draw it. Otherwise it is the same credit turned at random (``watch/reading.py``). The row
says which. With a credit, an audit costs about 100 forward passes per tap.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from faudit.audit.checks.check import FRESH, TURNED, Case, Control
from faudit.audit.judge import Verdict, judge, of_network
from faudit.audit.page import line
from faudit.audit.protocol import DEFAULT, Protocol
from faudit.audit.protocol import protocol as protocol_named
from faudit.errors import ModelError
from faudit.probes import PROBES, Need
from faudit.store.rows import Row, to_line
from faudit.watch.batches import buffer
from faudit.watch.copies import identical, inspected, same_randomness
from faudit.watch.credit import Credit
from faudit.watch.net import described
from faudit.watch.plain import is_meant, measurable, refuse_other_backward
from faudit.watch.reading import ForeignReading, Fresh, Loss, loss_of

WHY_NOT: dict[Need, str] = {  # why a foreign model may not offer what a probe needs
    "classes": "the labels do not name one class for each sample",
    "credit": "no credit was given",
    "parameters": "a foreign model does not say which weights belong to embedding, blocks and readout",
    "rule": "only the credit of a foreign model's rule can be known",
}
COLUMNS = {"‖h‖": "hidden_norms", "‖g‖": "grad_norms", "precise": "precision_agree", "Γ": "gamma", "ρ": "rho"}


@dataclass(frozen=True)
class AuditedModel:
    """The measurements and the verdict of a foreign model; a list entry of the row has one number per tap."""

    taps: tuple[str, ...]
    samples: int
    row: Row
    verdict: Verdict
    not_measured: Mapping[str, str]  # the probes whose needs were not met, and why

    def to_json(self) -> dict[str, Any]:
        measured = {"row": json.loads(to_line(self.row)), "not_measured": dict(self.not_measured)}
        return {"taps": list(self.taps), "samples": self.samples, **measured, **self.verdict.to_json()}

    def table(self) -> list[list[str]]:
        """A header and one line per tap; a dash stands for a number that was not measured or is undefined."""
        numbers = [self.row.numbers(entry) or [None] * len(self.taps) for entry in COLUMNS.values()]
        return [
            ["tap", *COLUMNS],
            *(
                [name, *("–" if value is None else f"{value:.4g}" for value in values)]
                for name, *values in zip(self.taps, *numbers, strict=True)
            ),
        ]

    def __str__(self) -> str:
        rows = self.table()
        widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
        lines = [
            "  ".join([row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))])
            for row in rows
        ]
        known = {"accuracy": "acc_eval", "loss": "loss_eval", "stability": "stability"}
        values = {name: self.row.number(entry) for name, entry in known.items()}
        scalars = [f", {name} {value:.4g}" for name, value in values.items() if value is not None]
        lines += [f"{self.samples} samples" + "".join(scalars)]
        return "\n".join([*lines, self.verdict.headline, *(f"    {reason}" for reason in self.verdict.reasons)])

    def page(self, title: str) -> str:
        """The audit as a Markdown page for an appendix."""
        head, *rows = self.table()
        return "\n".join(
            [
                f"# Audit of {title} by the protocol {self.verdict.protocol}", "",
                f"**{self.verdict.headline}** on {self.samples} samples", "",
                *(f"- {reason}" for reason in self.verdict.reasons), "",
                *(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)), "",
                "| check | finding | value | threshold | first fired at epoch | what |", "|---|---|---|---|---|---|",
                *(line(finding) for finding in self.verdict.findings),
                *(line(finding, label=True) for finding in self.verdict.labels), "",
            ]
        )  # fmt: skip


def audit_model(
    model: nn.Module,
    batches: Iterable[Any],
    *,
    taps: Sequence[str] | str,
    credit: Credit | None = None,
    fresh: Fresh | None = None,
    loss: Loss | None = None,
    plain: nn.Module | None = None,
    samples: int | None = None,
    frozen: Sequence[float] = (),
    protocol: str | Protocol = DEFAULT,
    seed: int = 0,
) -> AuditedModel:
    """Measure a model at its taps and judge it; the model does not change.

    ``batches`` are pairs (x, y); x is a tensor, or a mapping of tensors that the model takes by name. ``taps`` are
    names or patterns of submodules. ``credit(taps, logits, y)`` returns a signal of the shape of each tap.
    ``fresh(generator)`` returns such a callable with newly drawn feedback. ``loss(logits, y)`` returns one number per
    sample; the default is cross-entropy. ``plain`` is the same network with ordinary layers, for a model with a
    backward pass of its own. ``samples`` limits the number of samples. ``frozen`` are the accuracies of matched models
    whose tapped blocks never trained. ``protocol`` is the name of a protocol, or a ``Protocol``.
    """
    asked = protocol_named(protocol)
    patterns = [taps] if isinstance(taps, str) else taps
    if not is_list_of(patterns, str):
        raise ModelError(f"the taps: expected names or patterns of submodules, got {taps!r}")
    if not is_list_of(frozen, int | float):
        raise ModelError(f"frozen: expected a list of accuracies, got {frozen!r}. Write [0.5] for one.")
    if fresh is not None and credit is None:
        raise ModelError("fresh: expected together with a credit, whose null it draws. Give credit=… too.")
    for accuracy in frozen:
        if not 0.0 <= accuracy <= 1.0:
            raise ModelError(f"frozen: expected accuracies as shares from 0 to 1, got {accuracy:g}")
    if not isinstance(model, nn.Module):
        raise ModelError(f"the model: expected a torch.nn.Module, got {described(model)}")
    with torch.inference_mode(mode=False), same_randomness():
        x, y = buffer(batches, samples=samples)
        net, exact = inspected(measurable(model, plain), x, patterns=patterns, samples=len(y))
        reading = ForeignReading(net, exact, x, y, own_loss=loss, credit=credit, fresh=fresh, seed=seed)
        if loss is None:
            refuse_labels(reading.trace.logits, y)
        _ = reading.gradients  # refuses first what has none
        if not is_meant(model, plain):
            refuse_other_backward(exact, x, y, loss_of(loss))
        row, left_out = measured(reading)
    controls = [Control(f"frozen {place}", accuracy, by_hand=True) for place, accuracy in enumerate(frozen)]
    classes = net.classes if reading.is_classification else 0
    of_case = Row(row, epoch=0, test_acc=row["acc_eval"])  # a foreign model is tested on the buffer
    verdict = judge(Case(None, [of_case], samples=len(y), classes=classes, frozen=controls), asked)
    typed = ", ".join(f"{accuracy:g}" for accuracy in frozen)
    remarks = [f"the frozen accuracy was given by hand ({typed}): faudit has not measured it"] if frozen else []
    verdict = replace(verdict, reasons=(*verdict.reasons, *remarks))
    return AuditedModel(net.names, len(y), row, of_network(verdict) if credit is None else verdict, left_out)


def is_list_of(values: object, kind: Any) -> bool:
    return isinstance(values, Sequence) and not isinstance(values, str) and all(isinstance(v, kind) for v in values)


def measured(reading: ForeignReading) -> tuple[Row, dict[str, str]]:
    """The row of every probe that can run, and for each other probe the reason."""
    offers = reading.offers
    if "credit" in offers:
        refuse_nondeterministic(reading)
    row = Row(
        null_of=None if "credit" not in offers else TURNED if reading.fresh is None else FRESH,
        dtype=str(reading.trace.logits.dtype).removeprefix("torch."),
        eval_samples=len(reading.y),
    )
    left_out = {}
    for name, probe in PROBES.items():
        if lacking := [need for need in probe.needs if need not in offers]:
            left_out[name] = WHY_NOT[lacking[0]]
        else:
            row |= probe().measure(reading)
    return row, left_out


def refuse_labels(logits: Tensor, y: Tensor) -> None:
    """Refuse labels that do not give cross-entropy one class per sample."""
    if logits.ndim != 2 or y.ndim != 1 or y.dtype != torch.int64:
        raise ModelError(
            f"cross-entropy: expected logits [n, classes] and int64 labels [n], got {described(logits)} and "
            f"{described(y)}. Give your own loss: loss(logits, y) → one number per sample."
        )
    if int(y.min()) < 0 or int(y.max()) >= logits.shape[1]:
        raise ModelError(
            f"the labels: expected classes 0 to {logits.shape[1] - 1}, as many as the model has logits, "
            f"got {int(y.min())} to {int(y.max())}"
        )


def refuse_nondeterministic(reading: ForeignReading) -> None:
    """Refuse a credit that changes from call to call: it is not the signal that taught the model."""
    again = reading.credits_under({})
    for name, one, two in zip(reading.net.names, reading.credits, again, strict=True):
        if not identical(one, two):
            raise ModelError(
                f"the credit callable is not deterministic: two calls on the same taps differ at {name!r}. Draw its "
                "feedback once, outside, and give fresh=… for a null over draws."
            )
