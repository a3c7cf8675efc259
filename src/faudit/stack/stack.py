"""Several runs whose weights, state and optimizer lie in shared tensors, and are trained by one computation.

The tensors of a run become views of the shared ones. So probes, rows and checkpoints of a run need no code of their
own. ``agrees`` trains a few batches both ways before a stack is used, and compares every number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby

import torch
from torch import Tensor

from faudit.experiment import Experiment, build_optimizer
from faudit.rng import generators, restore, states
from faudit.stack.layers import fills_vectors
from faudit.stack.nets import stacked
from faudit.stack.rules import Batch, step
from faudit.store.checkpoint import TrainState
from faudit.train import learning_rate, one_epoch

RELATIVE, ABSOLUTE = 1e-4, 1e-6  # tolerance on a device that rounds a product by how many are made with it
# Rate, decay and steps so far → five lists, as torch's fused AdamW takes them.
Updates = dict[tuple[float, float, float], list[list[Tensor]]]


class Stack:
    """Runs that are trained together. They differ in seed, learning rate, weight decay or penalty only."""

    def __init__(self, experiments: Sequence[Experiment]) -> None:
        self.experiments = tuple(experiments)
        first = experiments[0]
        net = stacked(first.net)
        assert net is not None, "only runs whose net has a stacked form are put together"
        self._rule, self._net = first.rule, net
        held = [one.state for one in experiments]
        self._params = {name: shared([one.params[name] for one in held]) for name in held[0].params}
        self._state = {name: shared([one.rule_state[name] for one in held]) for name in held[0].rule_state}
        trained = [name for name in self._params if self._rule.trains(name)]
        self._grads = {name: torch.zeros_like(self._params[name]) for name in trained}
        self._penalties = [one.config.penalty for one in experiments]
        self._steps: Tensor | None = None
        if first.config.optimizer == "adamw":
            self._share_adamw()

    def _share_adamw(self) -> None:
        """Put what AdamW holds into shared tensors; a run before its first update begins with zeros."""
        counts = []
        self._held: dict[str, list[Tensor]] = {}  # mean and square of the gradients
        for name in self._grads:
            held = []
            for one in self.experiments:
                tensor, optimizer = one.state.params[name], one.state.optimizer
                if not optimizer.state_of(tensor):
                    fresh = {entry: torch.zeros_like(tensor.data) for entry in ("exp_avg", "exp_avg_sq")}
                    optimizer.restore(tensor, {"step": torch.zeros((), device=tensor.device), **fresh})
                held.append(optimizer.state_of(tensor))
            self._held[name] = [shared([one[entry] for one in held]) for entry in ("exp_avg", "exp_avg_sq")]
            counts += [one["step"] for one in held]
        self._steps = shared(counts)

    def epoch(self, epochs: Sequence[int]) -> list[float]:
        """One pass of every run over its own batches, each in its own epoch; returns the mean losses."""
        for one, epoch in zip(self.experiments, epochs, strict=True):
            one.state.optimizer.set_rates(partial(learning_rate, one.config, epoch))
        updates = self._updates(epochs)
        batches = self.experiments[0].batches
        total = torch.zeros(len(self.experiments), dtype=torch.float64, device=batches.device)
        streams = [one.batches.epoch(one.state.generators) for one in self.experiments]
        for parts in zip(*streams, strict=True):
            batch = Batch(torch.stack([x for x, _ in parts]), torch.stack([y for _, y in parts]))
            losses = step(
                self._rule,
                self._net,
                self._params,
                self._state,
                batch,
                penalties=self._penalties,
                grads=self._grads,
            )
            self._update(updates)
            total += losses * batch.size
        for one in self.experiments:
            for name in self._grads:
                one.state.params[name].grad = None
        return [value / batches.samples for value in total.tolist()]

    def _updates(self, epochs: Sequence[int]) -> Updates:
        """For AdamW: the tensors of the runs with one learning rate and weight decay. Others get their gradients."""
        found: Updates = {}
        if self._steps is None:
            for place, one in enumerate(self.experiments):
                for name, grads in self._grads.items():
                    one.state.params[name].grad = grads[place]
            return found
        counts = self._steps.view(len(self._grads), -1)
        for key, span in self._alike(epochs, counts[0].tolist()):
            lists = found.setdefault(key, [[] for _ in range(5)])
            for (name, grads), steps in zip(self._grads.items(), counts, strict=True):
                whole = (self._params[name], grads, *self._held[name])
                for cut in [span] if fills_vectors(grads) else [range(place, place + 1) for place in span]:
                    parts = (*(one[cut.start : cut.stop] for one in whole), steps[cut.start])
                    for entries, value in zip(lists, parts, strict=True):
                        entries.append(value)
        return found

    def _alike(self, epochs: Sequence[int], counts: list[float]) -> list[tuple[tuple[float, float, float], range]]:
        """Neighbours with one rate, decay and count of steps, which one call updates as one tensor."""
        keys = [
            (learning_rate(one.config, epoch, one.config.lr), one.config.weight_decay, count)
            for one, epoch, count in zip(self.experiments, epochs, counts, strict=True)
        ]
        spans, begin = [], 0
        for key, several in groupby(keys):
            end = begin + len(list(several))
            spans.append((key, range(begin, end)))
            begin = end
        return spans

    def _update(self, updates: Updates) -> None:
        """One update of every run, with its own rate."""
        if self._steps is None:
            for one in self.experiments:
                one.state.optimizer.step()
            return
        self._steps += 1
        for (rate, decay, _), (params, grads, means, squares, steps) in updates.items():
            torch._fused_adamw_(
                params,
                grads,
                means,
                squares,
                [],
                steps,
                lr=rate,
                weight_decay=decay,
                beta1=0.9,
                beta2=0.999,
                eps=1e-8,
                amsgrad=False,
                maximize=False,
            )


def shared(tensors: Sequence[Tensor]) -> Tensor:
    """One tensor that holds several of one shape. They become views of it."""
    whole = torch.stack([one.detach() for one in tensors])
    for one, own in zip(tensors, whole.unbind(), strict=True):
        one.data = own
    return whole


def agrees(experiments: Sequence[Experiment]) -> bool:
    """Whether a stack trains every run as the run alone: a whole batch and the smaller last one, tried on copies.

    On the CPU every bit must be equal: a run may then be trained in turn alone and in any stack. Other devices round a
    product by how many are made at once, so there equal to rounding must do.
    """
    alone, together = [short(one) for one in experiments], [short(one) for one in experiments]
    wanted = [one_epoch(one, 1) for one in alone]
    exact = all(one.batches.device.type == "cpu" for one in experiments)
    got = Stack(together).epoch([1] * len(together))
    return all(
        alike(a, b, exact=exact)
        for one, other in zip(alone, together, strict=True)
        for a, b in zip(tensors_of(one), tensors_of(other), strict=True)
    ) and alike(torch.tensor(wanted), torch.tensor(got), exact=exact)


def alike(a: Tensor, b: Tensor, *, exact: bool) -> bool:
    return torch.equal(a, b) if exact else torch.allclose(a, b, rtol=RELATIVE, atol=ABSOLUTE)


def tensors_of(experiment: Experiment) -> list[Tensor]:
    """The weights of a run, and what its optimizer holds."""
    state = experiment.state
    held = [one for value in state.trained.values() for one in state.optimizer.state_of(value).values()]
    return [*state.params.values(), *(one for one in held if isinstance(one, Tensor))]


def short(experiment: Experiment) -> Experiment:
    """A copy of a run with its own tensors and generators, and one batch of each size that an epoch has."""
    batches, live = experiment.batches, experiment.state
    rest = batches.samples % batches.batch_size
    params = {name: copied(value) for name, value in live.params.items()}
    state = {name: copied(value) for name, value in live.rule_state.items()}
    optimizer = build_optimizer(experiment.config, experiment.rule, params | state)
    for name, value in live.trained.items():
        held = live.optimizer.state_of(value)
        if held:
            copies = {entry: one.clone() if isinstance(one, Tensor) else one for entry, one in held.items()}
            optimizer.restore((params | state)[name], copies)
    named = generators(experiment.config.seed)
    restore(named, states(live.generators))
    few = replace(batches, dataset=batches.dataset.reduced(batches.batch_size + rest))
    return replace(experiment, batches=few, state=TrainState(params, state, optimizer, named))


def copied(tensor: Tensor) -> Tensor:
    return tensor.detach().clone().requires_grad_(tensor.requires_grad)
