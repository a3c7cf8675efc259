"""Write your own check in one file, put it into your own protocol, and judge a run by it.

The check asks whether the training loss has fallen to a share of what it was after the first epoch. A check is a frozen
dataclass: its fields are its thresholds, and its class names the entries of a row that it reads.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from faudit import RunConfig, fit
from faudit.audit.audit import audit
from faudit.audit.checks.check import NOT_MEASURED, Case, Check, Finding, at_most
from faudit.audit.protocol import PROTOCOLS, Protocol


@dataclass(frozen=True)
class Learning(Check):
    """The training loss of the last epoch as a share of that of the first one."""

    name: ClassVar[str] = "learning"
    reads: ClassVar[tuple[str, ...]] = ("train_loss",)
    grid: ClassVar[Mapping[str, tuple[float, ...]]] = {"share": (0.1, 0.5, 0.9)}

    share: float = 0.5

    def find(self, case: Case) -> Finding:
        first = next((row["train_loss"] for row in case.rows if row.get("train_loss") is not None), None)
        if first is None or self.lacks_entries(case.last):
            return self.finding(NOT_MEASURED, "no training loss was logged", threshold=self.share)
        value = case.last["train_loss"] / first
        reason = f"the training loss is {value:.2f} of what it was after the first epoch, the limit {self.share:g}"
        return self.finding(at_most(value, self.share), reason, value=value, threshold=self.share)


OURS = Protocol("ours", checks=(*PROTOCOLS["faudit-4"].checks, Learning(share=0.5)))

if __name__ == "__main__":
    config = RunConfig(rule="bp", data="digits", epochs=5, batch_size=32, width=64)
    run = fit(config, runs="runs")
    fit(config.with_(rule="frozen-bp"), runs="runs")  # the control that the check `paired` needs
    verdict = audit(run, OURS, data_dir=None).verdict
    print(f"{run.name}: {verdict.verdict} by the protocol {verdict.protocol}")
    for finding in verdict.findings:
        print(f"    {finding.check}: {finding.status}, {finding.reason}")
