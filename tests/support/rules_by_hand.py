"""What each rule's step must give on a ResMLP, by the hand-written derivatives of ``tests/support/oracle.py``."""

from __future__ import annotations

from faudit.rules import FROZEN, RULES
from tests.support.nets import Setup
from tests.support.oracle import Array, Oracle


def oracle_of(setup: Setup) -> Oracle:
    net = setup.net
    weights = {name: value.detach().numpy() for name, value in setup.params.items()}
    oracle = Oracle(
        weights, net.blocks, terminal_norm="readout.norm.weight" in weights, residual=net.signals == net.blocks
    )
    oracle.forward(setup.x.numpy())
    return oracle


def dfa_credit(setup: Setup, oracle: Oracle) -> list[Array]:
    e = oracle.error(setup.y.numpy())
    return [e @ setup.state[f"B.{l}"].numpy().T for l in range(setup.net.signals)]


def fa_credit(setup: Setup, oracle: Oracle) -> list[Array]:
    _, at_last = oracle.readout_back(oracle.error(setup.y.numpy()) / len(setup.y))  # of the *mean* loss
    credit = [at_last]
    for l in reversed(range(setup.net.signals - 1)):
        credit.insert(0, credit[0] @ setup.state[f"B.{l}"].numpy().T)
    return credit


def fa_embedding(setup: Setup, credit: list[Array]) -> Array | None:
    """B_e c_0, where the embedding has feedback of its own."""
    feedback = setup.state.get("B.embed")
    return None if feedback is None else credit[0] @ feedback.numpy().T


def own_credit(setup: Setup, oracle: Oracle) -> list[Array]:
    """The credit of the rule itself, which the test file of the rule derives by hand."""
    return [credit.detach().numpy() for credit in setup.credit()]


CREDITS = {  # of the local rules; one more adds its own
    "dfa": dfa_credit,
    "fa": fa_credit,
    **dict.fromkeys(("state-bridge", "credit-bridge", "placebo"), own_credit),
}
KNOWN = [name for name in RULES if name.removeprefix(FROZEN) in {"bp", *CREDITS}]  # others have their own test file


def expected(name: str, setup: Setup, penalty: float, eps: float, clip: float) -> dict[str, Array]:
    """The gradients of a rule by name; ``frozen-`` before it leaves the blocks out."""
    oracle, rule = oracle_of(setup), name.removeprefix(FROZEN)
    e = oracle.error(setup.y.numpy())
    if rule == "bp":
        grads = oracle.bp(e / len(e), penalty)[0]
    else:
        credit = CREDITS[rule](setup, oracle)
        first = fa_embedding(setup, credit) if rule == "fa" else None
        grads = oracle.local(credit, e, penalty=penalty, eps=eps, clip=clip, first=first)
    return {key: value for key, value in grads.items() if rule == name or not key.startswith("blocks.")}
