"""``faudit audit --model``: the audit of a model from the current directory, on the command line."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import safetensors.torch
import torch
from torch import nn

from faudit import DATASETS, audit_model
from faudit.cli.main import main
from tests.support.commands import faudit

CODE = """
import torch
from torch import nn

def build():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 10))

def broken():
    raise RuntimeError("no such\\nluck")

def number():
    return 3

def credit(taps, logits, y):
    e = logits.softmax(1) - nn.functional.one_hot(y, 10)
    B = torch.randn(10, 8, generator=torch.Generator().manual_seed(0))
    return [e @ B.to(h.dtype) for h in taps]

class Feedback(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x @ weight.T

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return grad @ (3.0 * weight.flip(0)), grad.T @ x

class Aligned(nn.Linear):
    def forward(self, x):
        return Feedback.apply(x, self.weight)

def aligned(head=Aligned):
    model = build()
    model[5] = head(8, 10, bias=False)
    return model

def plain():
    torch.manual_seed(9)
    return aligned(nn.Linear)

word = "nothing to call"
"""
WORDS = ["audit", "--data", "digits", "--taps", "1", "3", "--samples", "64"]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "mymodels").mkdir()
    (tmp_path / "mymodels" / "__init__.py").touch()
    (tmp_path / "mymodels" / "small.py").write_text(CODE)
    (tmp_path / "mymodels" / "torn.py").write_text("def build(:\n")
    monkeypatch.chdir(tmp_path)
    path = list(sys.path)
    yield
    assert sys.path == path, "the path of imports is put back"
    for name in [name for name in sys.modules if name.startswith("mymodels")]:
        del sys.modules[name]


def stack() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 10))


def test_json_is_what_the_function_gives(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    model = stack()
    with torch.no_grad():
        model.get_parameter("3.weight").mul_(3.0)
    safetensors.torch.save_file(model.state_dict(), tmp_path / "w.safetensors")
    words = [
        "--model",
        "mymodels.small:build",
        "--weights",
        "w.safetensors",
        "--credit",
        "mymodels.small:credit",
        "--json",
    ]
    code = main([*WORDS, *words, "--frozen-accuracy", "0.05", "0.06"])
    said = json.loads(capsys.readouterr().out)
    import mymodels.small as small  # type: ignore[import-not-found]  # written by the fixture

    data = DATASETS["digits"](None)
    x, y = data.buffer(64)
    audited = audit_model(
        model, [(data.normalise(x), y)], taps=["1", "3"], credit=small.credit, frozen=[0.05, 0.06]
    )  # fmt: skip
    assert said == {"model": "mymodels.small:build", **audited.to_json()}
    assert code == {"trustworthy": 0, "needs walk-back": 1, "inconclusive": 3}[said["verdict"]]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--frozen-accuracy", "0.0"], 1),  # it is untrained: its accuracy is that of a guess
        (["--frozen-accuracy", "0.0", "--protocol", "faudit-1"], 0),
        (["--credit", "mymodels.small:credit"], 1),
        (["--protocol", "faudit-1"], 3),
        (["--frozen-accuracy", "0.9", "--protocol", "paper"], 1),
    ],
)
def test_exit_codes_and_a_table(
    words: list[str], code: int, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    page = tmp_path / "page.md"
    assert main([*WORDS, "--model", "mymodels.small:build", "--markdown", str(page), *words]) == code
    said = capsys.readouterr().out
    head, first, second, *rest = said.splitlines()
    assert head.split() == ["tap", "‖h‖", "‖g‖", "precise", "Γ", "ρ"]
    assert [line.split()[0] for line in (first, second)] == ["1", "3"] and rest[0].startswith("64 samples, accuracy")
    assert (first.split()[4] == "–") is ("--credit" not in words)
    verdict = {0: "trustworthy", 1: "needs walk-back", 3: "inconclusive"}[code]
    covers = " (network only: no credit signal was given)" if code == 0 and "--credit" not in words else ""
    assert rest[1] == verdict + covers and rest[2].startswith("    ")
    checked = "points" if "paper" in words else "depth" if "faudit-1" in words else "paired"
    text = page.read_text()
    assert f"**{verdict}{covers}**" in text and "| 3 |" in text and f"| {checked} |" in text


@pytest.mark.slow
def test_it_runs_as_a_process_and_twice_the_same(tmp_path: Path) -> None:
    once, again = (faudit(*WORDS, "--model", "mymodels.small:build", "--json", cwd=tmp_path) for _ in range(2))
    assert once.returncode == 1, once.stderr
    assert once.stdout == again.stdout and not once.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["some-run", "--model", "a:b"], "cannot be combined with runs: expected one of them, got 'some-run' too"),
        (["--model", "a:b", "--with-controls"], "'--with-controls' too"),
        (["some-run", "--taps", "x"], "--taps is for a model of your own: expected --model too"),
        (["some-run", "--frozen-accuracy", "0.5"], "--frozen-accuracy is for a model"),
        ([], "nothing to audit: expected RUN names"),
        (["--model", "mymodels.small:build", "--data", "digits"], "--model needs --taps too"),
        (["--model", "mymodels.small:build", "--taps", "1"], "--model needs --data too"),
        ([*WORDS[1:], "--model", "mymodels.small"], "--model: expected package.module:name, got 'mymodels.small'"),
        ([*WORDS[1:], "--model", "mymodels.large:build"], "ModuleNotFoundError: No module named 'mymodels.large'"),
        ([*WORDS[1:], "--model", "mymodels.torn:build"], "failed: SyntaxError"),
        ([*WORDS[1:], "--model", "mymodels.small:bild"], "no callable 'bild', did you mean 'build'?"),
        ([*WORDS[1:], "--model", "mymodels.small:word"], "got 'word', which is 'nothing to call'"),
        ([*WORDS[1:], "--model", "mymodels.small:broken"], "failed: RuntimeError: no such. Expected"),
        ([*WORDS[1:], "--model", "mymodels.small:number"], "returns a torch.nn.Module, got int"),
        ([*WORDS[1:], "--model", "mymodels.small:build", "--credit", "mymodels.small:credt"], "did you mean 'credit'?"),
        ([*WORDS[1:], "--model", "mymodels.small:build", "--weights", "w.pt"], "w.pt: expected a file of weights"),
        ([*WORDS[1:], "--model", "mymodels.small:build", "--data", "digit"], "did you mean 'digits'?"),
        ([*WORDS[1:], "--model", "mymodels.small:build", "--taps", "b.*"], "match no submodule"),
        ([*WORDS[1:], "--model", "mymodels.small:build", "--samples", "0"], "--samples: expected at least 1, got 0"),
        ([*WORDS[1:], "--model", "mymodels.small:build", "--protocol", "x"], "unknown protocol 'x'"),
        ([*WORDS[1:], "--model", "mymodels.small:build", "--frozen-accuracy", "85"], "shares from 0 to 1, got 85"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_line_and_exit_2(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    assert main(["audit", *words]) == 2
    said = capsys.readouterr().err
    assert told in said and len(said.splitlines()) == 1


def test_a_backward_pass_of_its_own_is_told_and_plain_is_the_way_out(capsys: pytest.CaptureFixture[str]) -> None:
    words = [*WORDS, "--model", "mymodels.small:aligned", "--json"]
    assert main(words) == 2
    said = capsys.readouterr().err
    assert "backward pass is not the derivative of its forward pass" in said and said.count("\n") == 1
    norms = []
    for plain in ("plain", "aligned"):
        assert main([*words, "--plain", f"mymodels.small:{plain}"]) in (0, 1, 3)
        norms.append(json.loads(capsys.readouterr().out)["row"]["grad_norms"])
    assert norms[0] != pytest.approx(norms[1], rel=0.1), "the gradient, then the signal of the feedback"
    assert main([*words, "--plain", "mymodels.small:number"]) == 2
    assert "--plain mymodels.small:number: expected a factor" in capsys.readouterr().err
    assert main(["audit", "--all", "--plain", "mymodels.small:plain"]) == 2
    assert "--plain is for a model of your own" in capsys.readouterr().err
