"""Checkpoints: weights, rule state, optimizer and generators in one safetensors file, without pickle.

The header holds format, epoch, a CRC-32 of the contents, the run's id and a digest of the rows written so far. One
rename replaces the whole file. A file that is truncated, edited or from another run is refused.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors
import torch
from safetensors.torch import load as from_bytes
from safetensors.torch import save as to_bytes
from torch import Tensor

from faudit import rng
from faudit.errors import CheckpointError
from faudit.store.files import contents, write_whole
from faudit.store.rows import AGAIN
from faudit.store.run import Run, damaged

FORMAT = 1
KINDS = {  # how safetensors names the types that faudit's own nets have
    torch.float64: "F64",
    torch.int64: "I64",
    torch.float32: "F32",
    torch.int32: "I32",
    torch.bfloat16: "BF16",
    torch.float16: "F16",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


class Optimizers:
    """The optimizers of a run, each for some of its tensors, used like one."""

    def __init__(self, parts: Sequence[torch.optim.Optimizer]) -> None:
        self._parts = tuple(parts)
        self._rates = [group["lr"] for part in parts for group in part.param_groups]

    def step(self) -> None:
        """Update every tensor that has a gradient."""
        for part in self._parts:
            part.step()

    def set_rates(self, factor: Callable[[float], float]) -> None:
        """Set every learning rate to a function of the one that its group began with."""
        groups = (group for part in self._parts for group in part.param_groups)
        for group, rate in zip(groups, self._rates, strict=True):
            group["lr"] = factor(rate)

    def state_of(self, tensor: Tensor) -> dict[str, Any]:
        """What the optimizer of a tensor holds of it; empty before its first update."""
        return next((part.state[tensor] for part in self._parts if tensor in part.state), {})

    def restore(self, tensor: Tensor, held: dict[str, Any]) -> None:
        """Put back what the optimizer of a tensor held of it."""
        for part in self._parts:
            if any(tensor is own for group in part.param_groups for own in group["params"]):
                part.state[tensor] = held


@dataclass(frozen=True)
class TrainState:
    """Everything that a checkpoint saves and a resumed run needs."""

    params: dict[str, Tensor]
    rule_state: dict[str, Tensor]  # feedback weights and any other state of the rule
    optimizer: Optimizers
    generators: Mapping[str, torch.Generator]

    @property
    def trained(self) -> dict[str, Tensor]:
        """The tensors that an optimizer holds, by name: weights, and trained state of the rule."""
        return {name: value for name, value in (self.params | self.rule_state).items() if value.requires_grad}


def save(path: Path, live: TrainState, epoch: int, *, ties: Mapping[str, Any]) -> None:
    """Write or replace a checkpoint; ``ties`` identify its run (``Run.ties``)."""
    tensors = {name: value.detach().cpu().contiguous() for name, value in _tensors(live).items()}
    write(path, tensors, epoch, ties=ties)


def write(path: Path, tensors: Mapping[str, Tensor], epoch: int, *, ties: Mapping[str, Any]) -> None:
    """Write named tensors, each name prefixed with its kind; ``load`` reads them back."""
    header = {"format": FORMAT, "epoch": epoch, "crc32": _crc(tensors, epoch, ties), **ties}
    write_whole(path, serialised(tensors, {"faudit": json.dumps(header)}))


def serialised(tensors: Mapping[str, Tensor], metadata: dict[str, str]) -> bytes:
    """The contents of a safetensors file, as the package makes them, in a tenth of its time for a small net."""
    if any(value.dtype not in KINDS for value in tensors.values()):
        return to_bytes(dict(tensors), metadata=metadata)
    head: dict[str, Any] = {"__metadata__": metadata}
    parts, end = [], 0
    for name, value in sorted(tensors.items(), key=lambda one: (-one[1].element_size(), one[0])):  # so all are aligned
        begin, end = end, end + value.nbytes
        head[name] = {"dtype": KINDS[value.dtype], "shape": list(value.shape), "data_offsets": [begin, end]}
        parts.append(_data(value))
    text = json.dumps(head, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return b"".join((len(text).to_bytes(8, "little"), text, *parts))


def restore(run: Run, live: TrainState) -> int:
    """Load the checkpoint of a run into ``live``, in place; returns its epoch.

    Rows later than that epoch are dropped; training writes them again.
    """
    tensors, header = load_of(run)
    _restore_optimizer(live, tensors)
    expected = {name: value for name, value in _tensors(live).items() if not name.startswith("rng/")}
    came = {name: value for name, value in tensors.items() if not name.startswith("rng/")}
    must_match(run.checkpoint, expected, came)
    with torch.no_grad():
        for name, value in expected.items():
            value.copy_(came[name])
    # A generator that an older version did not save keeps its initial state.
    rng.restore(live.generators, {name[len("rng/") :]: tensors[name] for name in tensors.keys() - came.keys()})
    run.keep_rows(until=header["epoch"])
    if "rows" in header and header["rows"] != run.ties()["rows"]:
        raise damaged(run.rows_file, f"its rows do not match the digest in {run.checkpoint.name}")
    return int(header["epoch"])


def load_of(run: Run, *, epoch: int | None = None) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Load the last checkpoint of a run, or the one kept at an epoch; refuses that of another run.

    The weights of a finished run must be those that it ended with.
    """
    path = run.checkpoint if epoch is None else run.kept(epoch)
    tensors, header = load(path)
    own = run.config().run_id
    if header.get("run_id", own) != own:
        raise _damaged(path, f"it belongs to {header['run_id']}, expected {own}")
    if epoch is not None and header["epoch"] != epoch:
        raise _damaged(path, f"it is at epoch {header['epoch']}, expected {epoch}")
    ended = (run.outcome() or {}).get("weights_sha256")
    if epoch is None and ended is not None and ended != fingerprint(of_kind(tensors, "net/")):
        raise _damaged(path, "its weights are not those that the run ended with")
    return tensors, header


def must_match(path: Path, expected: Mapping[str, Tensor], came: Mapping[str, Tensor]) -> None:
    """Refuse a checkpoint whose tensors do not have the names, shapes and types of the run's configuration."""
    if expected.keys() != came.keys():
        odd = sorted(expected.keys() ^ came.keys())
        raise _damaged(path, f"expected the tensors of this run's configuration, got a difference in {odd[0]}")
    for name, value in expected.items():
        if came[name].shape != value.shape or came[name].dtype != value.dtype:
            got = f"{came[name].dtype} {list(came[name].shape)}"
            raise _damaged(path, f"{name}: expected {value.dtype} {list(value.shape)}, got {got}")


def load(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Every tensor of a checkpoint, by name with its kind as prefix ("net/…", "rule/…"), and the header."""
    try:
        # From bytes: safetensors cannot open a path that is not UTF-8, and blocks on a pipe.
        data = contents(path)
        tensors = {name: value.clone() for name, value in sorted(from_bytes(data).items())}
        head = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        header = json.loads(head.get("__metadata__", {}).get("faudit", "{}"))
    except (safetensors.SafetensorError, OSError, ValueError, RecursionError) as error:
        raise _damaged(path, f"expected a whole safetensors file, got {error}") from None
    if not isinstance(header, dict) or not isinstance(header.get("format"), int):
        raise _damaged(path, "expected faudit's header, got none")
    if header["format"] != FORMAT:
        raise CheckpointError(
            f"{path} has format {header['format']}, this faudit reads {FORMAT}. Use the version that made it."
        )
    ties = {name: value for name, value in header.items() if name not in ("format", "epoch", "crc32")}
    if not isinstance(header.get("epoch"), int) or header.get("crc32") != _crc(tensors, header["epoch"], ties):
        raise _damaged(path, "its contents do not match its checksum")
    return tensors, header


def weights(path: Path) -> dict[str, Tensor]:
    """The weights of the network in a checkpoint."""
    return of_kind(load(path)[0], "net/")


def of_kind(tensors: Mapping[str, Tensor], kind: str) -> dict[str, Tensor]:
    """The tensors of one kind ("net/", "rule/"), by name without the prefix."""
    return {name[len(kind) :]: value for name, value in tensors.items() if name.startswith(kind)}


def fingerprint(params: Mapping[str, Tensor]) -> str:
    """SHA-256 over all weights by name; equal only if the weights are equal to the last bit."""
    digest = hashlib.sha256()
    for name in sorted(params):
        value = params[name].detach().cpu().contiguous()
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(_data(value))
    return digest.hexdigest()


def _damaged(path: Path, problem: str) -> CheckpointError:
    return CheckpointError(f"the checkpoint {path} is damaged: {problem}. {AGAIN}")


def _tensors(live: TrainState) -> dict[str, Tensor]:
    named: dict[str, Tensor] = {f"net/{name}": value for name, value in live.params.items()}
    named.update({f"rule/{name}": value for name, value in live.rule_state.items()})
    named.update({f"rng/{name}": value for name, value in rng.states(live.generators).items()})
    for name, value in live.trained.items():
        for entry, held in live.optimizer.state_of(value).items():
            if isinstance(held, Tensor):
                named[f"optimizer/{name}/{entry}"] = held
    return named


def _restore_optimizer(live: TrainState, tensors: Mapping[str, Tensor]) -> None:
    """Put the saved tensors into the optimizer; a new optimizer has no state to copy into."""
    for name, value in live.trained.items():
        head = f"optimizer/{name}/"
        held = {key[len(head) :]: saved.to(value.device) for key, saved in tensors.items() if key.startswith(head)}
        if held:
            live.optimizer.restore(value, held)


def _crc(tensors: Mapping[str, Tensor], epoch: int, ties: Mapping[str, Any]) -> int:
    """CRC-32 over everything that affects a resumed run: epoch, ties, names, types, shapes and contents."""
    tied = json.dumps(ties, sort_keys=True) if ties else ""  # an earlier version wrote no ties
    total = zlib.crc32(f"{FORMAT} {epoch}{tied}".encode())
    for name in sorted(tensors):
        value = tensors[name].contiguous()
        total = zlib.crc32(f"{name} {value.dtype} {tuple(value.shape)}".encode(), total)
        total = zlib.crc32(_data(value), total)
    return total


def _data(value: Tensor) -> memoryview:
    """The bytes of a contiguous tensor of the CPU, where they are."""
    return value.view(-1).view(torch.uint8).numpy().data
