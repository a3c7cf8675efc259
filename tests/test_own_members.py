"""Members outside faudit: by name in every command, in the run id with their source, and one line for each mistake."""

from __future__ import annotations

import copy
import importlib.util
import itertools
import json
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import torch

from faudit import registry
from faudit.audit.audit import control_of
from faudit.bench.rules import rules_speed
from faudit.cli.main import main
from faudit.config import RunConfig, identity, known
from faudit.data import DATASETS
from faudit.errors import ConfigError, FauditError, StoreError
from faudit.figures.style import rule_look
from faudit.nets import NETS
from faudit.rules import RULES
from faudit.store.run import Run
from faudit.sweep.study import read
from faudit.train import fit, stream
from tests.support.clusters import two_nodes
from tests.support.paths import ROOT
from tests.support.runs import identical, same_as_alone, until

EXAMPLE = ROOT / "examples" / "own_package" / "src"
RULE, NET, DATA = "own_package.rules:NoisyDFA", "own_package.nets:TanhStack", "own_package.data:blobs"
OWN = {"rule": RULE, "net": NET, "data": DATA, "epochs": 3, "batch_size": 64}
HEAD = """
from dataclasses import dataclass, replace
from faudit.rules.bp import BP
from faudit.rules.rule import Rule
from faudit.nets.resmlp import ResMLP
from faudit.settings import number, setting, switch, whole
"""
SCALED = f'''{HEAD}
@dataclass(frozen=True)
class Scaled(BP):
    """BP with every gradient multiplied by a factor."""

    factor: float = setting(1.0, number(0.0), "factor of every gradient")

    def step(self, *args, **named):
        step = super().step(*args, **named)
        return replace(step, grads={{name: self.factor * grad for name, grad in step.grads.items()}})
'''
COUNT = itertools.count()
Write = Callable[[str], str]


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLE)


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Write a module into the current directory, under a name that no test had before; returns the name."""
    monkeypatch.chdir(tmp_path)

    def module(text: str) -> str:
        name = f"own_module_{next(COUNT)}"
        (tmp_path / f"{name}.py").write_text(text)
        return name

    yield module
    assert str(tmp_path) not in sys.path, "the path of imports is put back"


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    err = capsys.readouterr().err
    assert err.startswith("faudit: ") and err.count("\n") == 1, err
    return err


def test_a_config_with_own_members_is_a_value_like_any_other(example: None) -> None:
    config = RunConfig(**OWN, noise="0.3", layers=2)
    assert (config.noise, config.layers, config.features) == (0.3, 2, 16)
    assert re.fullmatch(r"TanhStack-NoisyDFA-blobs-s42-[0-9a-f]{10}", config.run_id)
    assert RunConfig.parse(json.loads(json.dumps(config.to_json())), where="here") == config
    for other in (copy.deepcopy(config), pickle.loads(pickle.dumps(config))):  # noqa: S301  # our own bytes
        assert other == config and other.run_id == config.run_id
    assert config.with_(noise=0.1, layers=3) == RunConfig(**OWN)
    assert config.with_(noise=0.2).run_id != config.run_id and "noise" in known()
    assert config.settings_of("rule").keys() == RULES.settings(RULE).keys() and config.settings_of("net")["layers"] == 2
    control = control_of(config)
    assert control.rule == f"frozen-{RULE}" and control.noise == 0.3 and control.own == config.own
    assert control.run_id.startswith("TanhStack-frozen-NoisyDFA-blobs-s42-")
    assert identity(control_of(control)) == identity(control)
    with pytest.raises(ConfigError, match="noise: expected a finite number ≥ 0, got -1"):
        config.with_(noise=-1)
    assert config.with_(rule="dfa").rule == "dfa" and "noise" not in config.with_(rule="dfa").settings


def test_nothing_is_imported_to_read_a_config(example: None) -> None:
    code = f"import sys; from faudit import RunConfig; RunConfig(**{OWN!r}).run_id"
    code += "; assert not {'own_package', 'torch'} & sys.modules.keys()"
    env = {"PYTHONPATH": f"{EXAMPLE}:{ROOT / 'src'}"}
    assert subprocess.run([sys.executable, "-c", code], check=False, env=env).returncode == 0


def test_the_run_id_covers_the_full_name_and_the_source(write: Write) -> None:
    one, other = write(SCALED), write(SCALED)
    names = {RunConfig(rule=f"{module}:Scaled").run_id for module in (one, other)}
    Path(f"{one}.py").write_text(SCALED.replace("every gradient multiplied", "each gradient multiplied"))
    names.add(RunConfig(rule=f"{one}:Scaled").run_id)
    assert len(names) == 3 and all(name.startswith("resmlp-Scaled-digits-s42-") for name in names)


def test_the_digest_covers_what_the_member_imports_from_its_package(tmp_path: Path, write: Write) -> None:
    write("")
    package = tmp_path / f"own_folder_{next(COUNT)}"
    package.mkdir()
    files = {
        "__init__": "from .rules import Scaled\n",
        "rules": SCALED + "from . import helpers\n",
        "helpers": "def f():\n    from .deep import g\n",
        "deep": "import json\n",
        "aside": "x = 1\n",
    }
    for name, text in files.items():
        (package / f"{name}.py").write_text(text)
    digests = [RULES.digest(f"{package.name}:Scaled")]
    assert "factor" in RULES.settings(f"{package.name}:Scaled")
    for name in ("aside", "deep", "helpers", "rules"):
        (package / f"{name}.py").write_text(files[name] + "# changed\n")
        digests.append(RULES.digest(f"{package.name}:Scaled"))
    assert digests[0] == digests[1] and len(set(digests)) == 4
    assert package.name not in sys.modules


def test_a_file_of_the_current_directory_never_stands_for_an_installed_module(write: Write, tmp_path: Path) -> None:
    (tmp_path / "orjson.py").write_text(SCALED)
    with pytest.raises(ConfigError, match="rule orjson:Scaled"):
        RULES["orjson:Scaled"]
    with registry.here():
        assert sys.path[-1] == str(tmp_path) and sys.path.count(str(tmp_path)) == 1


def test_an_own_rule_trains_and_its_setting_counts(write: Write, tmp_path: Path) -> None:
    module = write(SCALED)
    base = RunConfig(rule=f"{module}:Scaled", epochs=1, width=8, depth=1, optimizer="sgd", lr=0.1)
    runs = [fit(config, tmp_path / "runs") for config in (base, base.with_(factor=2.0), base.with_(rule="bp"))]
    losses = [run.rows()[-1]["train_loss"] for run in runs]
    assert losses[0] == losses[2] != losses[1] and runs[1].config() == base.with_(factor=2.0)


def test_flags_files_and_help_know_own_settings(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    module = write(SCALED)
    words = ["train", "--rule", f"{module}:Scaled", "--epochs", "1", "--width", "8", "--depth", "1"]
    assert main([*words[:3], "--help"]) == 0
    said = capsys.readouterr().out
    assert "BP with every gradient multiplied by a factor." in said and "--factor FACTOR" in said
    assert main([*words, "--factor", "2", "--json"]) == 0
    entry = json.loads(capsys.readouterr().out)
    assert entry["config"]["factor"] == 2.0 and entry["members"]["rule"]["name"] == f"{module}:Scaled"
    Path("run.toml").write_text(f'rule = "{module}:Scaled"\nepochs = 1\nwidth = 8\ndepth = 1\nfactor = 3\n')
    for more, want in (([], 3.0), (["--factor", "2"], 2.0)):
        assert main(["train", "--config", "run.toml", *more, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["config"]["factor"] == want
    assert main([*words, "--factr", "2"]) == 2
    assert "unknown flag '--factr', did you mean '--factor'?" in capsys.readouterr().err
    assert main(["show", "--json", "--where", "factor=3"]) == 0
    assert [one["config"]["factor"] for one in json.loads(capsys.readouterr().out)] == [3.0]


def test_a_study_may_name_own_members_and_their_settings(write: Write, tmp_path: Path) -> None:
    module = write(SCALED)
    study = tmp_path / "study.toml"
    study.write_text(
        f'with = ["matched"]\nname = "{{rule}} {{factor:g}}"\n[grid]\nrule = ["bp", "{module}:Scaled"]\n'
        'factor = [1, 2]\n[[exclude]]\nrule = "bp"\nfactor = 2\n'
    )
    assert [(one.rule, one.settings.get("factor")) for one in read(study)] == [
        ("bp", None), (f"{module}:Scaled", 1.0), (f"{module}:Scaled", 2.0), ("frozen-bp", None),
        (f"frozen-{module}:Scaled", 1.0), (f"frozen-{module}:Scaled", 2.0),
    ]  # fmt: skip
    study.write_text(
        f'with = ["frozen-{module}:Scaled"]\n[[include]]\nrule = "bp"\n[[include]]\nrule = "{module}:Scaled"\n'
        "[include.grid]\nfactor = [1, 2]\n"
    )
    runs = read(study)
    assert [(one.rule, one.settings.get("factor")) for one in runs] == [
        ("bp", None), (f"{module}:Scaled", 1.0), (f"{module}:Scaled", 2.0), (f"frozen-{module}:Scaled", 1.0),
        (f"frozen-{module}:Scaled", 2.0),
    ]  # fmt: skip
    study.write_text(f'rule = "{module}:Scaled"\n[grid]\nfactr = [1]\n')
    with pytest.raises(ConfigError, match=r"unknown setting 'factr', did you mean 'factor'\?.*study.toml"):
        read(study)
    study.write_text('[grid]\nrule = ["absent_module:Rule"]\n')
    with pytest.raises(ConfigError, match=r"absent_module:Rule cannot be read.*study.toml"):
        read(study)


def test_an_unfinished_run_is_not_resumed_with_other_source(
    write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    module = write(SCALED)
    config = RunConfig(rule=f"{module}:Scaled", epochs=3, width=8, depth=1)
    begun = stream(config, Run(tmp_path / "runs" / config.run_id))
    next(begun)
    begun.close()  # type: ignore[attr-defined]  # stream is a generator
    Path(f"{module}.py").write_text(SCALED + "# changed\n")
    old, new = config.own["rule"].source[:10], RULES.digest(f"{module}:Scaled")[:10]
    words = ["train", "--rule", f"{module}:Scaled", "--epochs", "3", "--width", "8", "--depth", "1"]
    assert main(words) == 2
    assert f"other source of rule {module}:Scaled: expected {old}, got {new}" in one_line(capsys)
    Path("study.toml").write_text(f'rule = "{module}:Scaled"\nepochs = 3\nwidth = 8\ndepth = 1\n')
    assert main(["sweep", "study.toml"]) == 2 and f"expected {old}, got {new}" in one_line(capsys)
    with pytest.raises(StoreError, match=f"expected {old}, got {new}"):
        fit(RunConfig(rule=f"{module}:Scaled", epochs=3, width=8, depth=1), "runs")
    with pytest.raises(ConfigError, match=f"changed: expected {old}, got {new}"):  # the old config with the new code
        fit(config, "runs")
    assert main([*words[:4], "2", *words[5:], "--seed", "7"]) == 2  # the old code is in this process
    assert "Start Python again" in one_line(capsys)
    Path(f"{module}.py").write_text(SCALED)
    assert main(words) == 0 and Run(tmp_path / "runs" / config.run_id).status == "done"


def test_again_trains_beside_the_run_with_other_source(write: Write, tmp_path: Path) -> None:
    module = write(SCALED)
    config = RunConfig(rule=f"{module}:Scaled", epochs=2, width=8, depth=1)
    begun = stream(config, Run(tmp_path / "runs" / config.run_id))
    next(begun)
    begun.close()  # type: ignore[attr-defined]  # stream is a generator
    Path(f"{module}.py").write_text(SCALED + "# changed\n")
    words = ["--rule", f"{module}:Scaled", "--epochs", "2", "--width", "8", "--depth", "1", "--again"]
    done = subprocess.run([sys.executable, "-m", "faudit", "train", *words], check=False, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert sorted(run.status for run in map(Run, (tmp_path / "runs").iterdir())) == ["done", "stopped"]


def test_a_finished_run_can_be_read_without_its_members(
    write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    module = write(SCALED)
    config = RunConfig(rule=f"{module}:Scaled", epochs=1, width=8, depth=1, factor=2.0)
    run = fit(config, tmp_path / "runs")
    fit(config.with_(seed=7), tmp_path / "runs")
    assert main(["audit", config.with_(seed=7).run_id, "--json"]) in (0, 1, 3)
    kept = json.loads(capsys.readouterr().out)
    Path(f"{module}.py").rename(f"{module}.txt")
    del sys.modules[module]
    assert Run(run.path).config() == config and Run(run.path).config().factor == 2.0
    assert main(["show", run.name]) == 0 and "factor=2.0" in capsys.readouterr().out
    assert main(["show", "--where", "factor=2"]) == 0 and run.name in capsys.readouterr().out
    for form in ("csv", "parquet"):
        assert main(["export", "--format", form, "--out", f"rows.{form}", "--where", "factor=2.0"]) == 0
    assert "factor" in Path("rows.csv").read_text().splitlines()[0] and "4 rows" in capsys.readouterr().err
    figure = ["figure", "penalty_sweep", "--out", "f.svg", "--data", "digits", "--epochs", "1", "--seeds", "42"]
    assert main([*figure, "--partial"]) in (0, 2) and "Traceback" not in capsys.readouterr().err
    assert main(["audit", run.name]) == 2
    assert f"rule {module}:Scaled cannot be read: ImportError: no module {module}" in one_line(capsys)
    assert main(["audit", config.with_(seed=7).run_id, "--json"]) in (0, 1, 3)  # what it measured before is kept
    assert json.loads(capsys.readouterr().out) == kept
    Path(f"{module}.py").write_text(SCALED + "# changed\n")
    assert main(["audit", run.name]) == 2 and "the source of rule" in one_line(capsys)


def test_a_config_file_without_what_it_kept_of_an_own_member_is_damaged(write: Write, tmp_path: Path) -> None:
    module = write(SCALED)
    run = fit(RunConfig(rule=f"{module}:Scaled", epochs=1, width=8, depth=1), tmp_path / "runs")
    file = run.path / "config.json"
    document = json.loads(file.read_text())
    members: dict[str, Any] = document["config"]["members"]
    rule = members["rule"]
    wrong: list[Any] = [
        {}, None, [], {"rule": None}, {"rule": rule | {"source": "0" * 64}}, {"rule": rule | {"source": "../x"}},
        {"rule": rule | {"settings": {"a b": 1}}}, {"rule": rule | {"settings": {"factor": {}}}},
        {"rule": rule | {"name": "os:system"}}, {"rule": rule | {"settings": {"epochs": 3}}}, {"x": rule},
    ]  # fmt: skip
    for spoiled in wrong:
        file.write_text(json.dumps({**document, "config": {**document["config"], "members": spoiled}}))
        with pytest.raises(FauditError) as caught:
            Run(run.path).config()
        assert "\n" not in str(caught.value) and str(file) in str(caught.value)


WRONG: dict[str, tuple[str, str, str]] = {
    "a module that does not exist": ("", "absent.module:X", "rule absent.module:X cannot be read: ImportError"),
    "no such name": (SCALED, "{}:Scald", "has no 'Scald', did you mean 'Scaled'?"),
    "no rule but a net": (HEAD, "{}:ResMLP", "is no rule: expected a class derived from faudit.rules.rule.Rule"),
    "no class": ("x = 3\n", "{}:x", "is no rule: expected a class derived from faudit.rules.rule.Rule, got a int"),
    "not complete": (f"{HEAD}@dataclass(frozen=True)\nclass X(Rule):\n    pass\n", "{}:X", "got none for step"),
    "no credit": (
        f"{HEAD}@dataclass(frozen=True)\nclass X(Rule):\n    def step(self, *a, **k): ...\n",
        "{}:X",
        "expected credit() or the reason no_credit",
    ),
    "no dataclass": (
        f"{HEAD}class X(BP):\n    factor: float = setting(1.0, number(0.0), 'x')\n",
        "{}:X",
        "expected @dataclass(frozen=True) above its class, since it declares factor",
    ),
    "raises at import": (f"{HEAD}class X(BP): ...\nraise RuntimeError('no\\nluck')", "{}:X", "RuntimeError: no"),
    "leaves at import": (f"import sys\n{HEAD}class X(BP): ...\nsys.exit(3)", "{}:X", "it called sys.exit(3)"),
    "no Python": ("def x(:\n", "{}:X", "cannot be read: SyntaxError"),
    "raises when it is made": (
        f"{HEAD}@dataclass(frozen=True)\nclass X(BP):\n    def __post_init__(self): raise OSError('no')\n",
        "{}:X",
        "cannot be started: OSError: no",
    ),
    "raises at init": (
        f"{HEAD}@dataclass(frozen=True)\nclass X(BP):\n    def init(self, *a): return 1 / 0\n",
        "{}:X",
        "cannot be started: ZeroDivisionError",
    ),
    "leaves at init": (
        f"{HEAD}@dataclass(frozen=True)\nclass X(BP):\n    def init(self, *a): raise SystemExit\n",
        "{}:X",
        "cannot be started: it called sys.exit(None)",
    ),
    "a setting of every run": (
        f"{HEAD}@dataclass(frozen=True)\nclass X(BP):\n    epochs: int = setting(1, whole(0, 3), 'x')\n",
        "{}:X",
        "declares the setting epochs, a name that faudit uses itself",
    ),
    "a flag of the command": (
        f"{HEAD}@dataclass(frozen=True)\nclass X(BP):\n    runs: int = setting(1, whole(0, 3), 'x')\n",
        "{}:X",
        "declares the setting runs, a name that faudit uses itself",
    ),
    "an entry of the rows": (
        f"{HEAD}@dataclass(frozen=True)\nclass X(BP):\n    gamma: float = setting(1.0, number(0.0), 'x')\n",
        "{}:X",
        "declares the setting gamma, a name that faudit uses itself",
    ),
    "a setting of the nets": (
        f"{HEAD}@dataclass(frozen=True)\nclass X(BP):\n    width: int = setting(1, whole(0, 3), 'x')\n",
        "{}:X",
        "declares the setting width, a name that faudit uses in another family or for another type",
    ),
    "a default that JSON cannot hold": (
        f"{HEAD}@dataclass(frozen=True)\nclass X(BP):\n    odd: object = setting(None, number(0.0), 'x')\n",
        "{}:X",
        "declares the setting odd, whose default is None",
    ),
    "a switch that is on": (
        f"{HEAD}@dataclass(frozen=True)\nclass X(BP):\n    odd: bool = setting(True, switch, 'x')\n",
        "{}:X",
        "a flag can only turn it on",
    ),
    "a declaration that fails": (
        f"{HEAD}@dataclass(frozen=True)\nclass X(BP):\n    odd: float = setting(1.0)\n",
        "{}:X",
        "cannot be read: TypeError",
    ),
    "in the script": ("", "__main__:X", "Put it in a file"),
    "faudit's own": ("", "faudit.rules.bp:BP", "rule faudit.rules.bp:BP is faudit's"),
    "no name": ("", "module.without.colon", "rule: expected one of bp,"),
    "a path": ("", "../own:X", "rule: expected one of bp,"),
    "a path inside": ("", "own:../X", "rule: expected one of bp,"),
}


@pytest.mark.parametrize("case", list(WRONG))
def test_a_rule_that_is_none_gets_one_line(case: str, write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    text, name, told = WRONG[case]
    module = write(text)
    assert main(["train", "--rule", name.format(module), "--epochs", "1", "--width", "8", "--depth", "1"]) == 2
    assert told in one_line(capsys)
    assert not Path("runs").exists()


def test_a_net_or_dataset_that_is_none_gets_one_line(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    module = write(
        f"{HEAD}@dataclass(frozen=True)\nclass Net(ResMLP):\n    def init(self, generator): return 1 / 0\n"
        "def number_(data_dir): return 3\ndef broken(data_dir): raise KeyError('x')\n"
        "def leaves(data_dir): raise SystemExit(1)\n"
        "word = 'no function'\n"
    )
    for words, told in (
        (["--net", f"{module}:Net"], f"net {module}:Net cannot be started: ZeroDivisionError"),
        (["--net", f"{module}:BP"], f"net {module}:BP is no net: expected a class derived from faudit.nets.net.Net"),
        (["--data", f"{module}:number_"], "expected a function that returns a Dataset, got int"),
        (["--data", f"{module}:broken"], f"dataset {module}:broken cannot be loaded: KeyError"),
        (["--data", f"{module}:leaves"], "it called sys.exit(1)"),
        (["--data", f"{module}:word"], "is no dataset: expected a function (data_dir) → Dataset"),
        (["--data", f"{module}:absent"], "has no 'absent'"),
        (["--optimizer", f"{module}:BP"], "is no optimizer: expected a class derived from"),
    ):
        assert main(["train", "--epochs", "1", *words]) == 2
        assert told in one_line(capsys)


def test_a_sweep_refuses_a_wrong_member_before_anything_starts(
    write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    module = write(f"{HEAD}x = 3\n")
    Path("study.toml").write_text(f'epochs = 1\n[grid]\ndata = ["{module}:x"]\n')
    assert main(["sweep", "study.toml"]) == 2
    assert "is no dataset" in one_line(capsys) and not Path("runs").exists()


def test_an_own_rule_is_timed_against_bp(example: None) -> None:
    result = rules_speed(threads_used=1, repeats=1, steps=1, only=[RULE])
    assert all({"bp", RULE} <= timed.keys() for timed in result["nets"].values())
    with pytest.raises(ConfigError, match="unknown rule 'dfaa', did you mean 'dfa'"):
        rules_speed(threads_used=1, repeats=1, steps=1, only=["dfaa"])


def test_an_own_rule_has_a_look_in_figures() -> None:
    name, *look = rule_look("package.module:Mine")
    assert name == "Mine" and look == list(rule_look("package.module:Mine")[1:])
    assert rule_look("frozen-package.module:Mine")[0] == "frozen-Mine"


def test_the_members_of_the_example_keep_the_contracts(example: None) -> None:
    """The laws that every member of faudit passes, on the members of the example."""
    data = DATASETS[DATA](None)
    net = NETS[NET](data.sample_shape, data.classes)
    draw = torch.Generator().manual_seed(0)
    params = {name: value.requires_grad_() for name, value in net.init(draw).items()}
    x, y = data.normalise(data.train_x[:16]), data.train_y[:16]
    rule: Any = RULES[RULE](noise=0.0)  # type: ignore[call-arg]  # a setting of the rule
    state = rule.init(net, x, draw)
    quiet = rule.step(net, params, state, x, y, generator=draw)
    twice = [rule.step(net, params, state, x, y, generator=torch.Generator().manual_seed(1)) for _ in range(2)]
    plain = RULES["dfa"]().step(net, params, state, x, y)
    assert all(torch.equal(twice[0].grads[name], twice[1].grads[name]) for name in params)
    assert all(torch.equal(quiet.grads[name], plain.grads[name]) for name in params)
    frozen = RULES[f"frozen-{RULE}"]().step(net, params, state, x, y, generator=draw)
    assert not [name for name in frozen.grads if name.startswith("blocks.")]


@pytest.mark.slow
def test_the_example_is_installed_trained_swept_audited_drawn_and_resumed(tmp_path: Path) -> None:
    """As a user would: the package is installed into a folder of its own, and every command is a process."""
    site, store = tmp_path / "site", tmp_path / "runs"
    source = tmp_path / "own_package"  # a copy, because the build may leave files behind
    shutil.copytree(ROOT / "examples" / "own_package", source)
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--target", str(site)]
    if importlib.util.find_spec("setuptools") is None:  # no build backend here: the source is the package
        shutil.copytree(source / "src", site)
    else:
        built = subprocess.run([*pip, str(source)], capture_output=True, text=True, check=False)
        assert built.returncode == 0 and list(site.glob("own_package-*.dist-info")), built.stderr
    env = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{site}"}

    def faudit(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "faudit", *words]
        return subprocess.run(command, capture_output=True, text=True, check=False, env=env, cwd=tmp_path, timeout=240)

    members = ["--rule", RULE, "--net", NET, "--data", DATA, "--noise", "0.2", "--batch-size", "50"]
    command = [sys.executable, "-m", "faudit", "train", *members, "--epochs", "100", "--log-every", "10"]
    killed = subprocess.Popen([*command, "--runs", "killed"], env=env, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    assert killed.stderr is not None
    for line in killed.stderr:
        if "epoch 20/" in line:
            killed.kill()
            break
    killed.communicate()
    (run,) = map(Run, (tmp_path / "killed").iterdir())
    assert run.status == "stopped" and run.name.startswith("TanhStack-NoisyDFA-blobs-s42-")
    for folder in ("killed", "runs"):
        done = faudit(*command[3:], "--runs", folder)
        assert done.returncode == 0, done.stderr
    identical(Run(tmp_path / "killed" / run.name), Run(store / run.name))
    audited = faudit("audit", run.name, "--with-controls")
    assert audited.returncode in (0, 1, 3) and run.name in audited.stdout, audited.stderr
    assert "no matched run with frozen blocks" not in audited.stdout
    assert len(list(store.iterdir())) == 2 and list(store.glob("TanhStack-frozen-NoisyDFA-blobs-*"))
    (tmp_path / "study.toml").write_text(
        f'rule = "{RULE}"\nnet = "{NET}"\ndata = "{DATA}"\nepochs = 4\nwith = ["matched"]\n[grid]\nnoise = [0, 0.2]\n'
    )
    local = faudit("sweep", "study.toml", "--runs", "local", "--jobs", "1")
    assert local.returncode == 0 and local.stdout.startswith("4 done"), local.stderr
    out = faudit("export", "--format", "csv", "--out", "rows.csv", "--runs", "local", "--where", "noise=0.2")
    assert out.returncode == 0 and "noise" in (tmp_path / "rows.csv").read_text(), out.stderr
    shown = ["--out", "plot.svg", "--runs", "local"]
    plotted = faudit("plot", "hidden_norms", "gamma", "--by", "rule", "noise", "--where", f"rule={RULE}", *shown)
    assert plotted.returncode == 0 and "noise = 0.2" in (tmp_path / "plot.json").read_text(), plotted.stderr
    paper = ["penalty-sweep", "--data", DATA, "--epochs", "1", "--seeds", "42", "--runs", "paper"]
    figure = faudit("figure", *paper, "--out", "figure.svg")
    assert figure.returncode == 2 and f"--data {DATA} --epochs 1" in figure.stderr, figure.stderr
    made = faudit("reproduce", *paper, "--jobs", "1", "--out", "made")
    assert made.returncode == 0, made.stderr
    figure = faudit("figure", *paper, "--out", "figure.svg")
    assert figure.returncode == 0 and (tmp_path / "figure.svg").exists(), figure.stderr
    assert json.loads((tmp_path / "figure.json").read_text())["plan"]["data"] == DATA
    pytest.importorskip("ray")
    there = faudit("sweep", "study.toml", "--runs", "ray", "--engine", "ray", "--jobs", "1")
    assert there.returncode == 0 and there.stdout.startswith("4 done"), there.stderr
    for one in (tmp_path / "local").iterdir():
        if one.is_dir():
            identical(Run(tmp_path / "ray" / one.name), Run(one))


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["local", "ray"])
def test_a_killed_sweep_of_own_members_goes_on(engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver and its workers are killed at work; the next sweep ends with the rows of runs trained alone."""
    if engine == "ray":
        pytest.importorskip("ray")
    monkeypatch.setenv("PYTHONPATH", f"{ROOT / 'src'}:{EXAMPLE}")
    monkeypatch.syspath_prepend(EXAMPLE)
    study, store = tmp_path / "study.toml", tmp_path / "runs"
    study.write_text(
        f'rule = "{RULE}"\nnet = "{NET}"\ndata = "{DATA}"\nepochs = 60\n[grid]\nnoise = [0, 0.2]\nlayers = [2]\n'
    )
    configs = read(study)
    words = [sys.executable, "-m", "faudit", "sweep", str(study), "--runs", str(store), "--engine", engine]
    with ExitStack() as stack:
        if engine == "ray":
            words += ["--address", stack.enter_context(two_nodes(tmp_path / "nodes"))[1]]
        killed = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, start_new_session=True)
        at_work = until(lambda: sum(len(Run(store / one.run_id).row_lines()) for one in configs) > 5, 120)
        os.killpg(killed.pid, signal.SIGKILL)
        _, said = killed.communicate(timeout=60)
        assert at_work and any(Run(store / one.run_id).status == "stopped" for one in configs), said
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0 and done.stdout.startswith("2 done, 0 failed, 0 left out"), done.stderr
    same_as_alone(configs, store, tmp_path / "alone")


@pytest.mark.slow
def test_workers_find_members_of_the_current_directory(write: Write, tmp_path: Path) -> None:
    module = write(SCALED)
    (tmp_path / "study.toml").write_text(f'rule = "{module}:Scaled"\nepochs = 1\nwidth = 8\ndepth = 1\nfactor = 2\n')
    script = "import sys; from faudit.__main__ import main; sys.exit(main())"
    python = [sys.executable, *(["-P"] if sys.version_info >= (3, 11) else []), "-c", script]
    for engine in ("local", "ray"):
        if engine == "ray":
            pytest.importorskip("ray")
        words = ["sweep", "study.toml", "--engine", engine, "--jobs", "1", "--runs", engine]
        done = subprocess.run([*python, *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0 and done.stdout.startswith("1 done"), done.stderr
