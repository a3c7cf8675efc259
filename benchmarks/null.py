"""How often does feedback that knows nothing pass the null of Γ? On healthy networks that thresholds may be set on.

Each network is trained, then its feedback is swapped many times: for feedback drawn anew, and, if it is learned, for
the same feedback with permuted rows. Every swap is scored against fresh draws of its own, as an audit does. By the
definition of the null, 5 % of the swaps are above 1.77 standard deviations, 0.4 % above 3 and 0.04 % above 4.

    python benchmarks/null.py --swaps 100 --kinds "sign symmetry mlp" "weight mirror resmlp" > evidence/protocol/null.md
"""

from __future__ import annotations

import argparse
from copy import copy
from statistics import fmean, stdev

import torch
from torch import Tensor

from faudit.bench.protocol.cases import NEW, SET, half
from faudit.data import DATASETS
from faudit.experiment import prepare, threads
from faudit.probes.perturbation import DRAWS
from faudit.probes.probe import Reading
from faudit.tensors import cosines, mean_defined
from faudit.train import one_epoch, read

LIMITS = (1.77, 3.0, 4.0)
SEED = 1  # no seed of the benchmark


def gammas(reading: Reading, credits: list[Tensor]) -> list[float]:
    """Γ of every block but the first, as ``null`` counts them."""
    found = []
    for block in range(1, reading.net.blocks):
        gradient = reading.gradients[reading.net.taught_at(block)]
        found.append(mean_defined(cosines(credits[block], gradient)[~reading.fitted])[0] or 0.0)
    return found


def scores(reading: Reading, state: dict[str, Tensor], seed: int) -> tuple[float, float]:
    """(deep mean, worst block) in standard deviations of fresh feedback, had the network this state."""
    other = copy(reading)  # with its passes, which do not depend on the feedback
    other.state, other.seed = state, seed
    own = gammas(other, other.credits_under(state))
    draws = [gammas(other, credits) for credits in other.fresh_credits(DRAWS)]
    means = [fmean(draw) for draw in draws]
    each = [(gamma - fmean(null)) / stdev(null) for gamma, null in zip(own, zip(*draws, strict=True), strict=True)]
    return (fmean(own) - fmean(means)) / stdev(means), min(each)


def swaps(reading: Reading, count: int) -> dict[str, list[dict[str, Tensor]]]:
    """The states to score: feedback drawn anew, and learned feedback with permuted rows."""
    found = {"drawn anew": [reading.fresh_state(f"swap.{k}") for k in range(count)]}
    if reading.rule.learns_feedback:
        found["rows permuted"] = [permuted(reading, reading.generator(f"order.{k}")) for k in range(count)]
    return found


def permuted(reading: Reading, generator: torch.Generator) -> dict[str, Tensor]:
    return {
        name: value[torch.randperm(len(value), generator=generator)] if reading.rule.is_feedback(name) else value
        for name, value in reading.state.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--swaps", type=int, default=200)
    kinds_set_on = [name for name, case in NEW.items() if half(name) == SET and case.healthy]
    parser.add_argument("--kinds", nargs="+", default=kinds_set_on, choices=kinds_set_on, metavar="KIND")
    asked = parser.parse_args()
    print("# How often feedback that knows nothing passes the null\n")
    kinds = " ".join(f'"{kind}"' for kind in asked.kinds)
    print(f"By `python benchmarks/null.py --swaps {asked.swaps} --kinds {kinds}`, seed {SEED}. ", end="")
    print("z is in standard deviations of 20 draws.\n")
    print(
        "| network | feedback | swaps | deep mean: own z | z > 1.77 | z > 3 | z > 4 "
        "| worst block: own z | z > 1.77 | z > 3 | z > 4 |"
    )
    print("|---" * 11 + "|", flush=True)
    data = DATASETS["digits"](None)
    with threads(1):
        for kind in asked.kinds:
            experiment = prepare(NEW[kind].config.with_(seed=SEED), data)
            for epoch in range(1, experiment.config.epochs + 1):
                one_epoch(experiment, epoch)
            reading = read(experiment)
            own = scores(reading, dict(reading.state), SEED)
            for what, states in swaps(reading, asked.swaps).items():
                found = [scores(reading, state, 1000 + k) for k, state in enumerate(states)]
                cells = [kind, what, str(len(found))]
                for place in (0, 1):
                    above = [sum(one[place] > limit for one in found) / len(found) for limit in LIMITS]
                    cells += [f"{own[place]:.1f}", *(f"{share:.1%}" for share in above)]
                print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
