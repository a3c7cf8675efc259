"""One number of a row: at a layer or over the layers, with the label that its entry declares."""

from __future__ import annotations

import pytest

from faudit.errors import ConfigError
from faudit.store.quantity import OVER, Quantity, quantities
from faudit.store.rows import ENTRIES, Row

ROW = Row(gamma=[0.5, 0.1, 0.2, None], rho=[0.8, 0.1, 0.3, 0.2], hidden_norms=[1.0, 4.0, 2.0, 6.0, 6.0], test_acc=0.9)


@pytest.mark.parametrize(
    ("quantity", "value"),
    [
        (Quantity("rho", 0), 0.8), (Quantity("rho", -1), 0.2), (Quantity("rho", 4), None), (Quantity("rho", -5), None),
        (Quantity("rho", over="mean"), 0.35), (Quantity("rho", over="max"), 0.8), (Quantity("rho", over="last"), 0.2),
        (Quantity("rho", over="deep"), 0.2), (Quantity("gamma", over="mean"), None), (Quantity("gamma", 3), None),
        (Quantity("test_acc"), 0.9), (Quantity("growth"), 4.0), (Quantity("stability"), None),
    ],
)  # fmt: skip
def test_a_quantity_has_this_value(quantity: Quantity, value: float | None) -> None:
    assert quantity.of(ROW) == (None if value is None else pytest.approx(value))


def test_a_network_of_one_block_has_no_deep_number() -> None:
    assert Quantity("rho", over="deep").of(Row(rho=[0.4])) is None


def test_labels_come_from_the_declared_entry() -> None:
    assert Quantity("gamma", 2).label == r"$\Gamma_{2}$ (cosine)"
    assert Quantity("hidden_norms", over="last").label == r"$\|h_{L}\|$ (L2 norm)"
    assert Quantity("gamma", over="deep").label == "mean over blocks from 1\nof $\\Gamma_{l}$ (cosine)"
    assert Quantity("rho_bp", 1).label == "rho_bp[1] (correlation)" and Quantity("growth").label == "growth (ratio)"
    for name, entry in ENTRIES.logged.items():
        if entry.kind != "text" and name != "epoch" and entry.shape not in ("draws", "quantiles"):
            (one,) = quantities(name)
            assert entry.unit in one.label


def test_without_a_choice_a_tap_is_the_last_and_blocks_are_averaged() -> None:
    assert quantities("hidden_norms") == [Quantity("hidden_norms", over="last")]
    assert quantities("gamma") == [Quantity("gamma", over="mean")] and quantities("test_acc") == [Quantity("test_acc")]
    assert quantities("rho", layers=[], rows=[ROW]) == [Quantity("rho", layer) for layer in range(4)]
    assert [str(one) for one in quantities("rho", layers=[1, -1], rows=[ROW])] == ["rho[1]", "rho[-1]"]


@pytest.mark.parametrize(
    ("entry", "options", "told"),
    [
        ("gama", {}, "unknown entry 'gama', did you mean 'gamma'?"),
        ("epoch", {}, "unknown entry 'epoch'"),
        ("dtype", {}, "unknown entry 'dtype'"),
        ("gamma_quantiles", {}, "expected an entry with one number per layer"),
        ("rho", {"layers": [4]}, "rho: expected a block from 0 to 3, got 4"),
        ("rho", {"over": "median"}, f"Valid: {', '.join(OVER)}"),
        ("rho", {"over": "max", "layers": [1]}, "got both"),
    ],
)
def test_what_no_row_can_have_is_refused(entry: str, options: dict[str, object], told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        quantities(entry, rows=[ROW], **options)  # type: ignore[arg-type]  # of several kinds
    assert told in str(caught.value) and "\n" not in str(caught.value)


def test_an_interval_is_cut_to_what_the_unit_allows() -> None:
    assert Quantity("test_acc").within(1.3) == 1.0 and Quantity("gamma", 0).within(-1.2) == -1.0
    assert Quantity("hidden_norms", 0).within(1e9) == 1e9
