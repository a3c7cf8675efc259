"""A folder with one of everything that faudit reads: the fuzzer's cases each have a copy of it to spoil.

runs/     a DFA run with a kept checkpoint and a kept audit, its frozen control, a run that was stopped, one that
          diverged, one on MNIST, an imported one
paper/    made-up runs of the paper, for its figures, claims and result files
data/     tiny MNIST and CIFAR-10 files
config.toml  study.toml  paper.json  model.py  weights.safetensors  weights.pt
"""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.support import cifar_files, idx_files
from tests.support.fabricate import all_runs

SHAPE = ["--width", "8", "--depth", "2"]
TINY = [*SHAPE, "--batch-size", "256", "--epochs", "2"]
TRAIN = {  # the commands that make the runs
    "audited": ["train", "--rule", "dfa", "--keep-epochs", "1", *TINY],
    "control": ["train", "--rule", "frozen-dfa", *TINY],
    "stopped": ["train", "--rule", "fa", *SHAPE, "--batch-size", "256", "--epochs", "3", "--keep-epochs", "0"],
    "diverged": ["train", *TINY, "--optimizer", "sgd", "--lr", "1e30", "--weight-decay", "0"],
    "mnist": ["train", *SHAPE, "--batch-size", "3", "--epochs", "1", "--data", "mnist"],
}
PLAN = ["--runs", "paper", "--data", "digits", "--epochs", "3", "--seeds", "42"]
CONFIG = 'net = "resmlp"\nrule = "dfa"\ndata = "cifar10"\nlr = 0.001\nkeep-epochs = [1, 2]\nno-augment = true\n'
STUDY = """rule = "bp"
width = 8
with = ["matched"]

[grid]
seed = [1, 2]
penalty = [0, 0.01]

[[exclude]]
seed = 2
penalty = 0.01

[[include]]
rule = "dfa"
lr = 0.01
"""
MODEL = """import torch
from torch import nn

def build():
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 10))

def credit(taps, logits, y):
    return [torch.ones_like(h) for h in taps]

word = "nothing to call"
"""


def make(root: Path) -> None:
    """Fill a folder; called in a child, since it trains."""
    import os

    import torch
    from safetensors.torch import save_file

    from faudit.cli.main import main
    from faudit.config import RunConfig
    from faudit.papers import PAPERS
    from faudit.store.run import Run, runs_in
    from faudit.train import stream

    root.mkdir(parents=True)
    os.chdir(root)
    for name, text in {"config.toml": CONFIG, "study.toml": STUDY, "model.py": MODEL, "types_.txt": "text"}.items():
        Path(name).write_text(text)
    idx_files.write(Path("data"))
    cifar_files.folder(Path("data"), cifar_files.batches())
    for name, words in TRAIN.items():
        if name != "stopped":
            assert main([*words, "--data-dir", "data"]) == (1 if name == "diverged" else 0)
    shape = RunConfig(width=8, depth=2, batch_size=256)
    stopped = shape.with_(rule="fa", epochs=3, keep_epochs=(0,))
    steps = stream(stopped, Run(Path("runs") / stopped.run_id))
    while next(steps)["epoch"] < 2:  # the checkpoint then stands at epoch 1
        pass
    steps.close()  # type: ignore[attr-defined]  # a generator
    assert main(["audit", shape.with_(rule="dfa", epochs=2, keep_epochs=(1,)).run_id]) in (0, 1, 3)
    plan = PAPERS["faeval"].plan("digits", epochs=3, seeds=(42,))
    all_runs(plan, Path("paper"), ["resmlp bp", "resmlp dfa", "noln bp", "noln dfa"])
    for run in runs_in(Path("paper")):
        run.finish({"epochs": 3})  # with ties, which made-up runs do not have
    assert main(["export", *PLAN, "--out", "exported"]) == 0
    shutil.copy("exported/results/snapshot_evolution_v2/snapshot_evolution_s42.json", "paper.json")
    shutil.rmtree("exported")
    assert main(["import", "paper.json"]) == 0
    torch.manual_seed(0)
    state = {"1.weight": torch.randn(8, 64), "1.bias": torch.zeros(8), "3.weight": torch.randn(10, 8)}
    state["3.bias"] = torch.zeros(10)
    save_file(state, "weights.safetensors")
    torch.save(state, "weights.pt")


def run_name(root: Path, which: str) -> str:
    """The directory of one of the runs, by what it is for."""
    heads = {"audited": "resmlp-dfa-digits-", "control": "resmlp-frozen-dfa-", "stopped": "resmlp-fa-"}
    heads |= {"diverged": "resmlp-bp-digits-", "mnist": "resmlp-bp-mnist-"}
    (path,) = (root / "runs").glob(f"{heads[which]}*")
    return path.name
