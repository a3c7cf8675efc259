"""Write rows as offline runs of Weights & Biases. ``wandb sync DIR/wandb/offline-run-*`` uploads them if you want that.

Needs the package ``wandb`` (``pip install 'faudit[wandb]'``). Nothing is sent: the mode is always offline, whatever the
environment says, and reports of errors are off. faudit records rows and settings, and no facts about the machine.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from faudit.config import RunConfig
from faudit.store.files import refusals
from faudit.store.rows import Row
from faudit.store.run import Status
from faudit.sweep.trackers.tracker import Record, Tracker, environment, not_installed, scalars

PROJECT = "faudit"


class WeightsAndBiases(Tracker):
    """Write the rows as offline runs of Weights & Biases into this folder."""

    def __init__(self, folder: Path) -> None:
        try:
            with environment(**quiet(folder)):
                import wandb
        except ImportError:
            raise not_installed("wandb", "wandb") from None
        super().__init__(folder)
        self._wandb: Any = wandb

    def records(self, name: str) -> list[Path]:
        """The folders of a run; W&B names them after the time and the id."""
        return sorted((self.folder / "wandb").glob(f"offline-run-*-{name}"))

    def has(self, name: str) -> bool:
        return bool(self.records(name))

    def begin(self, config: RunConfig) -> Offline:
        for old in self.records(config.run_id):
            with refusals(old):
                shutil.rmtree(old)
        settings = self._wandb.Settings(
            silent=True, console="off", save_code=False, disable_git=True, disable_job_creation=True,
            x_disable_meta=True, x_disable_stats=True, x_disable_machine_info=True,
        )  # fmt: skip
        with environment(**quiet(self.folder)):
            run = self._wandb.init(
                project=PROJECT, id=config.run_id, name=config.run_id, group=config.label(on=config.net),
                config=config.to_json(), dir=str(self.folder), mode="offline", reinit="create_new", settings=settings,
            )  # fmt: skip
        return Offline(run, self.folder)

    def close(self) -> None:
        with environment(**quiet(self.folder)):
            self._wandb.teardown()  # ends the process that writes the files


class Offline(Record):
    """One offline run."""

    def __init__(self, run: Any, folder: Path) -> None:
        self._run, self._folder = run, folder

    def write(self, rows: Sequence[Row]) -> None:
        for row in rows:
            self._run.log(dict(scalars(row)), step=row["epoch"], commit=True)

    def close(self, status: str) -> None:
        self._run.summary["status"] = str(status)
        with environment(**quiet(self._folder)):
            self._run.finish(exit_code=0 if status == Status.DONE else 1)


def quiet(folder: Path) -> dict[str, str]:
    """The environment in which W&B sends no reports and writes no file outside of the folder."""
    inside = str(folder.absolute() / "wandb")
    return {
        "WANDB_ERROR_REPORTING": "false",
        "WANDB_SILENT": "true",
        **dict.fromkeys(("WANDB_CONFIG_DIR", "WANDB_CACHE_DIR", "WANDB_DATA_DIR", "WANDB_ARTIFACT_DIR"), inside),
    }
