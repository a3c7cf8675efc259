"""Write rows into an MLflow database: ``mlflow ui --backend-store-uri sqlite:///DIR/mlflow.db`` shows it.

Needs ``pip install 'faudit[mlflow]'``. MLflow 3 no longer maintains its store of plain files and refuses to open it, so
faudit writes the SQLite database that MLflow recommends instead. Nothing is sent: telemetry is off.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from faudit.config import RunConfig
from faudit.errors import ConfigError
from faudit.store.rows import Row
from faudit.store.run import Status
from faudit.sweep.trackers.tracker import Record, Tracker, environment, not_installed, scalars

EXPERIMENT = "faudit"
ENDS = {Status.DONE: "FINISHED", Status.FAILED: "FAILED", Status.STOPPED: "KILLED"}
SILENT = {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}


class MLflow(Tracker):
    """Write the rows into an MLflow database (SQLite) in this folder."""

    def __init__(self, folder: Path) -> None:
        if "?" in str(folder.absolute()):
            raise ConfigError(f"--mlflow: expected a folder without ? in its path, got {folder}. Name another one.")
        try:
            with quiet():
                import alembic  # noqa: F401  # MLflow needs both for a database, and fails late without them
                import sqlalchemy  # noqa: F401
                from mlflow.tracking import MlflowClient
        except ImportError:
            raise not_installed("mlflow", "mlflow-skinny, sqlalchemy or alembic") from None
        super().__init__(folder)
        self._connect: Any = MlflowClient

    def open(self) -> None:
        super().open()
        folder = self.folder.absolute()
        with quiet():
            self._client: Any = self._connect(tracking_uri=f"sqlite:///{folder}/mlflow.db")
            known = self._client.get_experiment_by_name(EXPERIMENT)
            place = (folder / "artifacts").as_uri()
            self._experiment = (
                known.experiment_id if known else self._client.create_experiment(EXPERIMENT, artifact_location=place)
            )

    def records(self, name: str) -> list[Any]:
        """The records of a run that are not in MLflow's trash."""
        with quiet():
            found = self._client.search_runs([self._experiment], f"tags.`faudit.run_id` = '{name}'")
        return list(found)

    def has(self, name: str) -> bool:
        return bool(self.records(name))

    def begin(self, config: RunConfig) -> Tracked:
        from mlflow.entities import Param

        for old in self.records(config.run_id):
            with quiet():
                self._client.delete_run(old.info.run_id)
        with quiet():
            tags = {"faudit.run_id": config.run_id}
            run = self._client.create_run(self._experiment, run_name=config.run_id, tags=tags)
            settings = [Param(name, str(value)) for name, value in config.to_json().items()]
            self._client.log_batch(run.info.run_id, params=settings)
        return Tracked(self._client, run.info.run_id)

    def close(self) -> None:
        """Hold nothing: the client opens the database for each call."""


class Tracked(Record):
    """One run of the database."""

    def __init__(self, client: Any, name: str) -> None:
        self._client, self._name = client, name

    def write(self, rows: Sequence[Row]) -> None:
        from mlflow.entities import Metric

        now = int(1000 * time.time())
        for row in rows:
            metrics = [Metric(tag, value, now, row["epoch"]) for tag, value in scalars(row)]
            with quiet():
                self._client.log_batch(self._name, metrics=metrics)

    def close(self, status: str) -> None:
        with quiet():
            self._client.set_terminated(self._name, status=ENDS[Status(status)])


@contextmanager
def quiet() -> Iterator[None]:
    """Let MLflow neither send nor print anything; environment and logging are restored."""
    loggers = [logging.getLogger(name) for name in ("mlflow", "alembic")]
    before = [(logger, logger.level) for logger in loggers]
    with environment(**SILENT):
        try:
            for logger in loggers:
                logger.setLevel(logging.WARNING)
            yield
        finally:
            for logger, level in before:
                logger.setLevel(level)
