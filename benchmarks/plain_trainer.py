"""The baseline of ``faudit bench train``: BP and DFA on CIFAR-10 as a careful PyTorch user writes them.

It uses a ``DataLoader`` with two workers. Random crop, flip and normalisation work per sample, as in torchvision's
recipe for CIFAR-10, on pictures (``Pictures``) or, faster, on tensors (``Tensors``). The blocks are ``nn.Module``. DFA
has one optimizer, one backward pass and one clipping per part. It shares no code with faudit. A test compares its steps
with faudit's, so both do the same work. torchvision itself is not needed.
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
        self.embed = nn.Linear(inputs, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.readout = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, CLASSES))

    def forward(self, x: Tensor) -> Tensor:
        h = self.embed(x.flatten(1))
        for block in self.blocks:
            h = h + block(h)
        logits: Tensor = self.readout(h)
        return logits


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
    return DataLoader(samples, batch_size=batch_size, shuffle=True, num_workers=2)


def adamw(parameters: Iterator[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=1e-3, weight_decay=0.01)


class PlainBP:
    """Backprop with one optimizer."""

    def __init__(self, net: PlainResMLP) -> None:
        self.net, self.optimizer = net, adamw(net.parameters())

    def step(self, x: Tensor, y: Tensor) -> float:
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.net(x), y)
        loss.backward()
        self.optimizer.step()
        return loss.item()


class PlainDFA:
    """Direct feedback alignment with one optimizer and one pass per part."""

    def __init__(self, net: PlainResMLP, feedback: list[Tensor] | None = None) -> None:
        self.net = net
        width = net.embed.out_features
        self.feedback = feedback or [torch.randn(width, CLASSES) / CLASSES**0.5 for _ in net.blocks]
        self.embed_optimizer = adamw(net.embed.parameters())
        self.block_optimizers = [adamw(block.parameters()) for block in net.blocks]
        self.readout_optimizer = adamw(net.readout.parameters())

    def step(self, x: Tensor, y: Tensor) -> float:
        net = self.net
        with torch.no_grad():
            h = net.embed(x.flatten(1))
            states = [h]
            for block in net.blocks:
                h = h + block(h)
                states.append(h)
            error = F.softmax(net.readout(h), dim=1) - F.one_hot(y, CLASSES)
            signals = []
            for matrix in self.feedback:
                signal = error @ matrix.T
                signals.append(signal / (signal.pow(2).mean(dim=1, keepdim=True).sqrt() + 1e-6))

        for l, block in enumerate(net.blocks):
            self.block_optimizers[l].zero_grad()
            (block(states[l]) * signals[l]).sum(dim=1).mean().backward()
            nn.utils.clip_grad_norm_(block.parameters(), 1.0)

        self.embed_optimizer.zero_grad()
        (net.embed(x.flatten(1)) * signals[0]).sum(dim=1).mean().backward()

        self.readout_optimizer.zero_grad()
        loss = F.cross_entropy(net.readout(states[-1]), y)
        loss.backward()

        for optimizer in (self.embed_optimizer, *self.block_optimizers, self.readout_optimizer):
            optimizer.step()
        return loss.item()


def epoch(trainer: PlainBP | PlainDFA, batches: DataLoader[tuple[Tensor, int]]) -> float:
    """Train for one pass over the training set and return the mean loss."""
    losses = [trainer.step(x, torch.as_tensor(y)) for x, y in batches]
    return sum(losses) / len(losses)
