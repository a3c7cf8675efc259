"""examples/09: five lines watch a loop with hand-written DFA, and a second computation in float64 gives its rows."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import faudit
from faudit.audit.judge import NETWORK_ONLY
from faudit.cli.main import main
from tests.support.paths import ROOT

SOURCE = (ROOT / "examples" / "09_watch_your_loop.py").read_text()
ADDED = re.compile(r".*  # added\b.*")


def without_watching(source: str) -> tuple[str, list[str]]:
    """The script without its added lines, and those lines; what stood inside an added ``with`` moves to the left."""
    kept, added, inside = [], [], -1
    for line in source.splitlines():
        indent = len(line) - len(line.lstrip())
        if ADDED.fullmatch(line):
            added.append(line.strip())
            if line.lstrip().startswith("with "):
                inside = indent
            continue
        if inside >= 0 and line.strip() and indent <= inside:
            inside = -1
        kept.append(line[4:] if inside >= 0 else line)
    return "\n".join(kept), added


def run_script(source: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(source, "example", "exec"), names)
    return names


@pytest.mark.slow
def test_five_added_lines_watch_it_and_change_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    plain, added = without_watching(SOURCE)
    assert len(added) == 5 and "faudit.watch" in added[3] and "faudit.control" in added[4]
    code = plain.split('"""', 2)[2]
    assert "import faudit\n" not in code and not re.search(r"\bw\b|faudit\.(?!data\b)", code), "the user's own code"
    watched, alone = run_script(SOURCE), run_script(plain)
    for one, two in zip(watched["model"].state_dict().values(), alone["model"].state_dict().values(), strict=True):
        assert torch.equal(one, two)
    said = capsys.readouterr().out
    assert f"trustworthy ({NETWORK_ONLY})" in said.splitlines()[0]
    (run,) = faudit.runs_in("runs")
    assert main(["audit", run.name]) == 0
    assert capsys.readouterr().out.startswith(f"{run.name}: trustworthy ({NETWORK_ONLY})\n")


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "epochs"), [(torch.float64, 2), (torch.float32, 6)])
def test_a_second_computation_gives_the_rows_of_the_example(
    dtype: torch.dtype, epochs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The training is repeated by hand; plain autograd in float64 gives norms, gradients, accuracy, loss and cosine."""
    monkeypatch.chdir(tmp_path)
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        source = SOURCE if epochs == 6 else SOURCE.replace("EPOCHS = 10, 64, 6", f"EPOCHS = 10, 64, {epochs}")
        names = run_script(source.replace(".flatten(1)", f".flatten(1).to({dtype})"))
        wanted = by_hand(names)
    finally:
        torch.set_default_dtype(before)
    rows = names["w"].run.rows()
    assert len(rows) == len(wanted) == epochs + 1
    rtol, atol = (1e-6, 1e-6) if dtype == torch.float32 else (1e-10, 0.0)
    for row, one in zip(rows, wanted, strict=True):
        for entry, value in one.items():
            np.testing.assert_allclose(
                row[entry], value, rtol=rtol, atol=atol, err_msg=f"{entry}, epoch {row['epoch']}"
            )


def by_hand(names: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of the example: its loop written again, without faudit."""
    x, y = names["train_x"], names["train_y"]
    torch.manual_seed(0)
    model = names["MLP"]()
    draw = torch.Generator().manual_seed(1)
    feedback = [torch.randn(10, 64, generator=draw) / 8 for _ in range(4)]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    rows = [measured(names, model)]
    for _ in range(names["EPOCHS"]):
        for some in torch.randperm(len(x), generator=draw).split(32):
            names["dfa"](model, x[some], y[some], feedback)
            before = copy.deepcopy(model.state_dict())
            optimizer.step()  # which leaves ``.grad``
        rows.append({**measured(names, model), **agreement(names, model, before, x[some], y[some])})
    return rows


def twin(names: dict[str, Any], state: Mapping[str, Tensor]) -> Any:
    exact = names["MLP"]().double()
    exact.load_state_dict(state)
    return exact


def measured(names: dict[str, Any], model: Any) -> dict[str, Any]:
    """Plain autograd on the test samples, which do not influence each other."""
    exact, x, y = twin(names, model.state_dict()), names["test_x"].double(), names["test_y"]
    states = exact.states(x)
    logits = exact.head(states[-1])
    losses = F.cross_entropy(logits, y, reduction="none")
    gradients = torch.autograd.grad(losses.sum(), states)
    sizes, slopes = (np.array([h.detach().norm(dim=1).numpy() for h in some]) for some in (states, gradients))
    return {
        "hidden_norms": np.median(sizes, axis=1),
        "grad_norms": np.median(slopes, axis=1),
        "grad_norms_frobenius": np.sqrt(np.square(slopes).sum(axis=1)),
        "acc_eval": float((logits.argmax(dim=1) == y).double().mean()),
        "loss_eval": float(losses.detach().mean()),
    }


def agreement(names: dict[str, Any], model: Any, before: Mapping[str, Tensor], x: Tensor, y: Tensor) -> dict[str, Any]:
    """Cosine, ratio and signs of ``.grad`` against the gradient of the mean loss before the step, in float64."""
    exact = twin(names, before)
    loss = F.cross_entropy(exact(x.double()), y)
    true = torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(exact.parameters()))])
    own = torch.cat([value.grad.flatten() for value in model.parameters()]).double()
    counted = (own * true) != 0
    return {
        "compare_cosine": float(own @ true / own.norm() / true.norm()),
        "compare_ratio": float(own.norm() / true.norm()),
        "compare_sign": float((own * true > 0).sum() / counted.sum()),
    }
