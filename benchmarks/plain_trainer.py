"""The baseline of ``faudit bench train``: BP and DFA on CIFAR-10 as a careful PyTorch user writes them.

It uses a ``DataLoader`` with two workers that stay between epochs. Random crop, flip and normalisation work per sample,
as in torchvision's recipe for CIFAR-10, on pictures (``Pictures``) or, faster, on tensors (``Tensors``). The nets are
``nn.Module``. DFA has one optimizer, one backward pass and one clipping per part. It shares no code with faudit. A test
compares its steps with faudit's, so both do the same work. torchvision itself is not needed.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image, ImageOps
from torch import Tensor, nn
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as TorchDataset

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
CLASSES = 10


class Block(nn.Module):
    """f(h) = W2·GELU(W1·LN(h))."""

    def __init__(self, width: int, w2_std: float = 0.01) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.w1 = nn.Linear(width, width)
        self.w2 = nn.Linear(width, width)
        nn.init.normal_(self.w2.weight, std=w2_std)
        nn.init.zeros_(self.w2.bias)

    def forward(self, h: Tensor) -> Tensor:
        out: Tensor = self.w2(F.gelu(self.w1(self.norm(h))))
        return out


class PlainResMLP(nn.Module):
    """The same network as faudit's ``resmlp``."""

    def __init__(self, inputs: int = 3072, width: int = 256, depth: int = 4) -> None:
        super().__init__()
        self.embed = nn.Sequential(nn.Flatten(), nn.Linear(inputs, width))
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.readout = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, CLASSES))

    def forward(self, x: Tensor) -> Tensor:
        return run(self, x)

    def tap(self, h: Tensor) -> Tensor:
        return h


class Attend(nn.Module):
    """f(h) = a + m with a = Attention(LN(h)) and m = W2·GELU(W1·LN(h + a))."""

    def __init__(self, width: int, heads: int, ratio: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.w1, self.w2 = nn.Linear(width, ratio * width), nn.Linear(ratio * width, width)

    def forward(self, h: Tensor) -> Tensor:
        n, tokens, width = h.shape
        q, k, v = self.qkv(self.norm1(h)).view(n, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, tokens, width)
        attended: Tensor = self.out(mixed)
        out: Tensor = attended + self.w2(F.gelu(self.w1(self.norm2(h + attended))))
        return out


class Patches(nn.Module):
    """Patches by a convolution, a class token in front, positions added."""

    def __init__(self, channels: int, side: int, patch: int, width: int) -> None:
        super().__init__()
        self.project = nn.Conv2d(channels, width, patch, stride=patch)
        self.cls = nn.Parameter(0.02 * torch.randn(width))
        self.positions = nn.Parameter(0.02 * torch.randn((side // patch) ** 2 + 1, width))

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.project(x).flatten(2).transpose(1, 2)
        return torch.cat([self.cls.expand(len(x), 1, -1), tokens], dim=1) + self.positions


class PlainViT(nn.Module):
    """The same network as faudit's ``vit``."""

    def __init__(
        self, shape: tuple[int, int] = (3, 32), width: int = 256, depth: int = 4, patch: int = 4, heads: int = 4
    ) -> None:
        super().__init__()
        self.embed = Patches(*shape, patch, width)
        self.blocks = nn.ModuleList(Attend(width, heads, 2) for _ in range(depth))
        self.readout = nn.Sequential(ClassToken(), nn.LayerNorm(width), nn.Linear(width, CLASSES))

    def forward(self, x: Tensor) -> Tensor:
        return run(self, x)

    def tap(self, h: Tensor) -> Tensor:
        return h[:, 0]


class ClassToken(nn.Module):
    """The first token."""

    def forward(self, h: Tensor) -> Tensor:
        return h[:, 0]


class PlainCNN(nn.Module):
    """The same network as faudit's ``cnn``: no skips, so each block is taught at its output."""

    def __init__(self, shape: tuple[int, int] = (3, 32), width: int = 32) -> None:
        super().__init__()
        channels, side = shape
        w = width
        self.embed = nn.Sequential(nn.Conv2d(channels, w, 3, padding=1), nn.ReLU())
        self.blocks = nn.ModuleList(
            [
                nn.Sequential(nn.Conv2d(w, 2 * w, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
                nn.Sequential(nn.Conv2d(2 * w, 4 * w, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
                nn.Sequential(nn.Flatten(), nn.Linear(4 * w * (side // 4) ** 2, 8 * w), nn.ReLU()),
            ]
        )
        self.readout = nn.Linear(8 * w, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return run(self, x)

    def tap(self, h: Tensor) -> Tensor:
        return h.flatten(1)


PlainNet = PlainResMLP | PlainViT | PlainCNN
NETS: dict[str, type[PlainNet]] = {"resmlp": PlainResMLP, "vit": PlainViT, "cnn": PlainCNN}


def run(net: PlainNet, x: Tensor) -> Tensor:
    """The forward pass."""
    logits: Tensor = net.readout(states_of(net, x)[-1])
    return logits


def states_of(net: PlainNet, x: Tensor) -> list[Tensor]:
    """h_0 … h_L; the CNN has no skips."""
    h = net.embed(x)
    states = [h]
    for block in net.blocks:
        h = block(h) if isinstance(net, PlainCNN) else h + block(h)
        states.append(h)
    return states


class Crop(nn.Module):
    """Pad with black, then cut out a random window."""

    def forward(self, picture: Image.Image) -> Image.Image:
        picture = ImageOps.expand(picture, border=4, fill=0)
        row, column = torch.randint(9, (1,)).item(), torch.randint(9, (1,)).item()
        return picture.crop((column, row, column + 32, row + 32))


class Flip(nn.Module):
    """Flip left to right with probability 1/2."""

    def forward(self, picture: Image.Image) -> Image.Image:
        return picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if torch.rand(1) < 0.5 else picture


class ToTensor(nn.Module):
    """A picture → float32 [C, H, W] in 0..1."""

    def forward(self, picture: Image.Image) -> Tensor:
        pixels = torch.from_numpy(np.array(picture, copy=True)).view(picture.height, picture.width, 3)
        return pixels.permute(2, 0, 1).contiguous().to(torch.float32).div(255)


class Normalize(nn.Module):
    """(x − mean) / std per channel, on a copy, with a check for a std of 0, as in the general-purpose transform."""

    def forward(self, image: Tensor) -> Tensor:
        image = image.clone()
        mean, std = torch.as_tensor(MEAN), torch.as_tensor(STD)
        if (std == 0).any():
            raise ValueError("std: expected no zero")
        return image.sub_(mean.view(-1, 1, 1)).div_(std.view(-1, 1, 1))


class Pictures(TorchDataset[tuple[Tensor, int]]):
    """Transforms one picture at a time with the same PIL and torch operations as torchvision's recipe."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        self.x, self.y = x.permute(0, 2, 3, 1).contiguous().numpy(), y.tolist()  # [N, H, W, C]
        self.transform = nn.Sequential(Crop(), Flip(), ToTensor(), Normalize())

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.transform(Image.fromarray(self.x[index])), self.y[index]


class Tensors(TorchDataset[tuple[Tensor, int]]):
    """The same transforms on tensors, without pictures, as a user writes them after profiling the loader."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        self.x, self.y = x, y.tolist()

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        image = F.pad(self.x[index], (4, 4, 4, 4))
        row, column = int(torch.randint(9, (1,))), int(torch.randint(9, (1,)))
        image = image[:, row : row + 32, column : column + 32]
        if float(torch.rand(1)) < 0.5:
            image = image.flip(-1)
        return normalised(image.float().div(255)), self.y[index]


def normalised(image: Tensor) -> Tensor:
    return image.sub_(torch.tensor(MEAN).view(3, 1, 1)).div_(torch.tensor(STD).view(3, 1, 1))


def loader(samples: TorchDataset[tuple[Tensor, int]], batch_size: int = 128) -> DataLoader[tuple[Tensor, int]]:
    return DataLoader(samples, batch_size=batch_size, shuffle=True, num_workers=2, persistent_workers=True)


def adamw(parameters: Iterator[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=1e-3, weight_decay=0.01)


class PlainBP:
    """Backprop with one optimizer."""

    def __init__(self, net: PlainNet) -> None:
        self.net, self.optimizer = net, adamw(net.parameters())

    def step(self, x: Tensor, y: Tensor) -> float:
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.net(x), y)
        loss.backward()
        self.optimizer.step()
        return loss.item()


class PlainDFA:
    """Direct feedback alignment with one optimizer and one pass per part."""

    def __init__(self, net: PlainNet, x: Tensor, feedback: list[Tensor] | None = None) -> None:
        self.net = net
        self.later = 1 if isinstance(net, PlainCNN) else 0  # without skips the signal of tap l + 1 teaches block l
        with torch.no_grad():
            taps = [net.tap(h) for h in states_of(net, x)][: len(net.blocks) + self.later]
        self.feedback = feedback or [torch.randn(tap.shape[1], CLASSES) / CLASSES**0.5 for tap in taps]
        self.embed_optimizer = adamw(net.embed.parameters())
        self.block_optimizers = [adamw(block.parameters()) for block in net.blocks]
        self.readout_optimizer = adamw(net.readout.parameters())

    def step(self, x: Tensor, y: Tensor) -> float:
        net = self.net
        with torch.no_grad():
            states = states_of(net, x)
            error = F.softmax(net.readout(states[-1]), dim=1) - F.one_hot(y, CLASSES)
            signals = []
            for matrix in self.feedback:
                signal = error @ matrix.T
                signals.append(signal / (signal.pow(2).mean(dim=1, keepdim=True).sqrt() + 1e-6))

        for l, block in enumerate(net.blocks):
            self.block_optimizers[l].zero_grad()
            taught(block(states[l]), signals[l + self.later]).backward()
            nn.utils.clip_grad_norm_(block.parameters(), 1.0)

        self.embed_optimizer.zero_grad()
        taught(net.embed(x), signals[0]).backward()

        self.readout_optimizer.zero_grad()
        loss = F.cross_entropy(net.readout(states[-1]), y)
        loss.backward()

        for optimizer in (self.embed_optimizer, *self.block_optimizers, self.readout_optimizer):
            optimizer.step()
        return loss.item()


def taught(out: Tensor, signal: Tensor) -> Tensor:
    """⟨out, signal⟩, meaned over the batch. The signal of a class token teaches every token."""
    if out.ndim == 3:
        signal = signal.unsqueeze(1)
    elif out.ndim == 4:
        out = out.flatten(1)
    return (out * signal).flatten(1).sum(dim=1).mean()


def epoch(trainer: PlainBP | PlainDFA, batches: DataLoader[tuple[Tensor, int]]) -> float:
    """Train for one pass over the training set and return the mean loss."""
    losses = [trainer.step(x, torch.as_tensor(y)) for x, y in batches]
    return sum(losses) / len(losses)
