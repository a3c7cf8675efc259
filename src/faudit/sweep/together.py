"""Train several runs of one worker in step: each writes its own files, and one computation trains their epochs.

A run that ends, fails or is held by another process leaves; the others go on. Runs that a stack would not train to the
same bits are trained one by one here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from faudit.config import RunConfig
from faudit.errors import is_out_of_memory
from faudit.store.run import Run
from faudit.sweep.engine import Answer, answered, loaded

if TYPE_CHECKING:
    from faudit.stack.stack import Stack
    from faudit.train import Due, Trained


class Member:
    """One run: the epoch that it waits for, or the answer that it ended with."""

    def __init__(self, config: RunConfig, runs: Path, *, data_dir: Path | None) -> None:
        self.config = config
        self.due: Due | None = None
        self.answer: Answer | None = None
        self._run, self._data_dir = Run(runs / config.run_id), data_dir
        self._life: Any = None
        self._wrote = False
        self._remarks: tuple[str, ...] = ()

    def begin(self) -> None:
        """Go on to the first epoch that is due."""
        from faudit.train import life

        def start() -> Any:
            self._life = life(self.config, self._run, dataset=loaded(self.config.data, self._data_dir))
            return next(self._life, self)

        self._go(start)

    def go_on(self, trained: Trained) -> None:
        """Go on to the next epoch that is due, or to the end."""
        self._go(lambda: self._life.send(trained))

    def stop(self, error: Exception) -> None:
        """End because the computation that it shares raised an error."""
        self._go(lambda: self._life.throw(error))

    def _go(self, begin: Callable[[], Any]) -> None:
        from faudit.train import Due

        self.due = None

        def advance(config: RunConfig) -> str:
            said = begin()
            while said is not self and not isinstance(said, Due):
                self._wrote = True
                said = next(self._life, self)
            self.due = said if isinstance(said, Due) else None
            return "" if self._wrote or self.due else "by another process"

        answer = answered(self.config, advance)
        self._remarks = (*self._remarks, *answer.remarks)
        if self.due is None:
            self.answer = Answer(answer.word, answer.text, self._remarks)


def attempt_all(
    several: Sequence[Mapping[str, Any]], runs: Path, *, data_dir: Path | None
) -> Iterator[tuple[int, Answer]]:
    """Train several runs to their end; yields the place of each with its answer when it has one."""
    members = [Member(RunConfig.parse(one, where="sweep"), runs, data_dir=data_dir) for one in several]
    for place, member in enumerate(members):
        member.begin()
        if member.answer:
            yield place, member.answer
    stack: Stack | None = None
    built: list[Member] = []
    while waiting := [member for member in members if member.due]:
        if built != waiting:
            stack, built = stack_of(waiting), waiting
        train_one_epoch(waiting, stack)
        for member in waiting:
            if member.answer:
                yield members.index(member), member.answer


def stack_of(members: Sequence[Member]) -> Stack | None:
    """The stack of the members; None if they must be trained one by one."""
    from faudit.stack.stack import Stack, agrees

    experiments = [member.due.experiment for member in members if member.due]
    try:
        return Stack(experiments) if len(members) > 1 and agrees(experiments) else None
    except Exception as error:
        if is_out_of_memory(error):
            return None
        raise


def train_one_epoch(members: Sequence[Member], stack: Stack | None) -> None:
    """Train the epochs that the members wait for. A member answers for its own errors, all for those of the stack."""
    from faudit.train import Trained, one_epoch

    dues = [member.due for member in members if member.due]
    began = time.perf_counter()
    if stack is None:
        for member, due in zip(members, dues, strict=True):
            began = time.perf_counter()
            try:
                loss = one_epoch(due.experiment, due.epoch)
            except Exception as error:  # noqa: BLE001  # the member turns it into its answer
                member.stop(error)
            else:
                member.go_on(Trained(loss, time.perf_counter() - began))
        return
    try:
        losses = stack.epoch([due.epoch for due in dues])
    except Exception as error:  # noqa: BLE001  # the members turn it into their answers
        for member in members:
            member.stop(error)
        return
    share = (time.perf_counter() - began) / len(members)
    for member, loss in zip(members, losses, strict=True):
        member.go_on(Trained(loss, share))
