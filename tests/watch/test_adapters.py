"""Code that nobody here wrote, watched, compared and judged: Trainers of Lightning and Hugging Face, and BioTorch."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import faudit
from faudit.audit.checks.check import FIRED, Finding
from faudit.audit.judge import INCONCLUSIVE, WALK_BACK, Verdict
from tests.support.digits import digits

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # their warnings are not ours

EPOCHS = 2


def lightning() -> Any:
    try:
        import lightning.pytorch as found
    except ImportError:
        return pytest.importorskip("pytorch_lightning", reason="Lightning is not here: pip install -e '.[lightning]'")
    return found


def module(pl: Any) -> Any:
    """A Lightning module on the digits with dropout."""

    class Digits(pl.LightningModule):  # type: ignore[misc]  # Any
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.embed = nn.Linear(64, 32)
            self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(32, 32), nn.Tanh(), nn.Dropout(0.1)) for _ in range(2))
            self.head = nn.Linear(32, 10)
            self.fail_at = -1

        def forward(self, x: Tensor) -> Tensor:
            h = self.embed(x.flatten(1))
            for block in self.blocks:
                h = h + block(h)
            return self.head(h)  # type: ignore[no-any-return]

        def training_step(self, batch: Any, batch_idx: int) -> Tensor:
            if self.current_epoch == self.fail_at:
                raise ValueError("a bad batch")
            x, y = batch
            loss = F.cross_entropy(self(x), y)
            self.log("train_loss", loss)
            return loss

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    return Digits()


def fitted(pl: Any, callbacks: list[Any], *, fail_at: int = -1) -> nn.Module:
    x, y, *_ = digits(256)
    model = module(pl)
    model.fail_at = fail_at
    torch.manual_seed(1)
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "accelerator": "cpu"}
    trainer = pl.Trainer(max_epochs=EPOCHS, callbacks=callbacks, enable_model_summary=False, **quiet)
    trainer.fit(model, DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True))
    return model  # type: ignore[no-any-return]


def test_lightning_is_watched_compared_and_judged(tmp_path: Path) -> None:
    pl = lightning()
    from faudit.watch.lightning import WatchCallback

    *_, x, y = digits()
    options: dict[str, Any] = {
        "eval_batch": (x, y),
        "taps": "blocks.*",
        "runs": tmp_path,
        "name": "lightning",
        "strict": True,
    }
    callback = WatchCallback(compare=True, **options)
    watched, alone = fitted(pl, [callback]), fitted(pl, [])
    for one, two in zip(watched.state_dict().values(), alone.state_dict().values(), strict=True):
        assert torch.equal(one, two), "watching changed the training"
    rows = callback.watch.run.rows()
    assert [row["epoch"] for row in rows] == [0, 1, 2] and rows[2]["acc_eval"] > rows[0]["acc_eval"] + 0.2
    assert rows[1]["train_loss"] > 0
    assert rows[2]["compare_cosine"] == pytest.approx(1.0, abs=1e-5), "it trains by backprop, with the same masks"
    verdict = callback.watch.verdict()
    assert verdict.verdict == INCONCLUSIVE and "faudit.control" in verdict.reasons[0]
    crashed = WatchCallback(**{**options, "name": "crashed"})
    with pytest.raises(ValueError, match="a bad batch"):
        fitted(pl, [crashed], fail_at=1)
    outcome = crashed.watch.run.outcome()
    assert outcome is not None and "ValueError: a bad batch" in outcome["reason"] and len(crashed.watch.run.rows()) == 2


def test_a_vit_of_transformers_is_watched_compared_and_judged(tmp_path: Path) -> None:
    os.environ["HF_HUB_OFFLINE"] = "1"
    transformers: Any = pytest.importorskip("transformers", reason="transformers is not here: Python 3.11 or newer")
    pytest.importorskip("accelerate", reason="accelerate is not here: pip install -e '.[huggingface]'")
    from faudit.watch.huggingface import WatchCallback

    train_x, train_y, x, y = digits(512)
    data = [{"pixel_values": one, "labels": label} for one, label in zip(train_x, train_y, strict=True)]

    def trained(callbacks: list[Any]) -> nn.Module:
        torch.manual_seed(0)
        sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32,
                 "initializer_range": 0.2}  # fmt: skip
        config = transformers.ViTConfig(**sizes, image_size=8, patch_size=2, num_channels=1, num_labels=10)
        model = transformers.ViTForImageClassification(config)
        args = transformers.TrainingArguments(
            output_dir=str(tmp_path / "out"), num_train_epochs=EPOCHS, per_device_train_batch_size=16,
            save_strategy="no", learning_rate=5e-3, report_to=[], disable_tqdm=True, use_cpu=True, seed=1,
            logging_steps=8,
        )  # fmt: skip
        transformers.Trainer(model, args, train_dataset=data, callbacks=callbacks).train()
        return model  # type: ignore[no-any-return]

    callback = WatchCallback(
        compare=True,
        eval_batch=({"pixel_values": x}, y),
        taps="vit.layers.*",
        runs=tmp_path / "runs",
        name="vit",
        strict=True,
    )
    watched, alone = trained([callback]), trained([])
    for one, two in zip(watched.state_dict().values(), alone.state_dict().values(), strict=True):
        assert torch.equal(one, two), "watching changed the training"
    rows = callback.watch.run.rows()
    assert [row["epoch"] for row in rows] == [0, 1, 2] and len(rows[2]["hidden_norms"]) == 3
    assert rows[2]["loss_eval"] < rows[0]["loss_eval"] and rows[2]["train_loss"] > 0
    assert rows[2]["compare_cosine"] == pytest.approx(1.0, abs=1e-4)
    assert callback.watch.verdict().verdict in (INCONCLUSIVE, WALK_BACK)
    assert not vars(watched)["_forward_pre_hooks"], "its hook is gone"


def test_feedback_alignment_of_biotorch_is_seen_to_explode(tmp_path: Path) -> None:
    """FA on the digits with SGD lr .05 and momentum .9: a good accuracy, an exploded stream, and scale says when."""
    linear: Any = pytest.importorskip(
        "biotorch.layers.fa", reason="BioTorch is not here: pip install --no-deps biotorch==0.0.16"
    ).Linear
    train_x, train_y, x, y = digits()
    train_x, x = train_x.flatten(1), x.flatten(1)

    def stack(layer: Any) -> nn.Sequential:
        torch.manual_seed(0)
        blocks = [nn.Sequential(layer(width, 256), nn.ReLU()) for width in (64, 256, 256)]
        return nn.Sequential(*blocks, layer(256, 10))

    model, plain = stack(linear), stack(nn.Linear)
    options: dict[str, Any] = {"eval_batch": (x, y), "taps": ["0", "1", "2"], "runs": tmp_path, "name": "biotorch-fa"}
    with pytest.raises(faudit.FauditError, match="backward pass is not the derivative of its forward pass"):
        faudit.watch(model, **options)
    with pytest.raises(faudit.FauditError, match="backward pass is not the derivative of its forward pass"):
        faudit.audit_model(model, [(x, y)], taps=options["taps"])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    seen: list[int] = []
    with faudit.watch(model, **options, plain=plain) as w:
        for epoch in range(1, 51):
            for part in torch.randperm(len(train_x), generator=torch.Generator().manual_seed(epoch - 1)).split(32):
                optimizer.zero_grad()
                F.cross_entropy(model(train_x[part]), train_y[part]).backward()
                found = w.compare(train_x[part], train_y[part]) if len(part) < 32 else None
                optimizer.step()
            w.log(epoch)
            if not seen and scale_of(w.verdict()).status == FIRED:
                seen.append(epoch)  # live: while it trains
    last, verdict = w.rows[-1], w.verdict()
    print(f"scale fires at epoch {seen}: accuracy {last['acc_eval']:.3f}, h {last['hidden_norms'][-1]:.2g}, "
          f"loss {last['loss_eval']:.2g}; {scale_of(verdict).reason}")  # fmt: skip
    assert verdict.verdict == WALK_BACK and seen == [scale_of(verdict).first_fire] and seen[0] <= 5
    assert last["acc_eval"] > 0.9 and last["hidden_norms"][-1] > 3e5 and last["loss_eval"] > 1e8
    assert found is not None and found.parts["readout"].cosine == pytest.approx(1.0, abs=1e-3)
    assert found.parts["blocks.0"].cosine is not None and found.parts["blocks.0"].cosine < 0.9
    audited = faudit.audit_model(model, [(x, y)], taps=options["taps"], plain=plain)
    assert audited.verdict.verdict == WALK_BACK and scale_of(audited.verdict).status == FIRED
    assert audited.row["hidden_norms"] == last["hidden_norms"][1:]


def scale_of(verdict: Verdict) -> Finding:
    return next(one for one in verdict.findings if one.check == "scale")
