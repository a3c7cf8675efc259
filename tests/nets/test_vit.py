"""ViT: which tokens are taught, by the signal at the class token."""

from __future__ import annotations

import pytest

from tests.support.nets import Setup


@pytest.mark.parametrize(("net", "untaught"), [("vit", set()), ("vit-cls", {"embed.weight", "embed.bias"})])
def test_a_signal_for_the_class_token_alone_teaches_no_patch_of_the_embedding(net: str, untaught: set[str]) -> None:
    """At h_0 the class token has seen no patch yet."""
    for rule in ("dfa", "fa"):
        grads = Setup(rule, net).grads()
        assert {name for name, gradient in grads.items() if not bool(gradient.any())} == untaught
