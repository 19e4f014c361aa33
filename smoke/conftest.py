"""Options, workers and evidence of the smoke suite: `pytest smoke/ --target dev`.

Workers and `--dist loadgroup` are set here and not by an ini file, so that xdist is on whatever ini pytest picks.
"""

import os
import re
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from iop.admin.forwards import Forwards
from iop.config.inventory import Inventory
from smoke import evidence, target
from smoke.history import Environment, History, Reported, merge, now
from smoke.judgement import closing_line, judge
from smoke.reach import Reach, plain, reach
from smoke.rounds import Bench

ROOT = Path(__file__).resolve().parents[1]
#: the cases are two kinds: those that take slots, one after the other, and a few that only read beside them
WORKERS = 3

#: the mark of cases that never run by accident
DISRUPTIVE = "disruptive"

RUN = pytest.StashKey["Run"]()


class Run:
    """One run: where the system is, where the evidence goes, what each test came to."""

    def __init__(self, inventory: Inventory, folder: Path, environment: Environment) -> None:
        self.inventory = inventory
        self.folder = folder
        self.environment = environment
        self.outcomes: dict[str, str] = {}
        self.skips: dict[str, str] = {}
        self.forwards = Forwards(inventory)
        self.reach = plain(inventory)
        self.line: str | None = None
        self.report: Path | None = None
        self.blockers: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the worst outcome of each test's phases, and why it was skipped."""
        name = report.nodeid.split("::", 1)[-1]
        if report.when == "call" or report.outcome != "passed":
            self.outcomes[name] = report.outcome
        if report.skipped and isinstance(report.longrepr, tuple):
            self.skips[name] = report.longrepr[2].removeprefix("Skipped: ")

    def tested(self) -> list[Reported]:
        """The outcomes as records."""
        return [Reported(now(), name, what, self.skips.get(name, "")) for name, what in sorted(self.outcomes.items())]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the suite's options."""
    group = parser.getgroup("smoke", "iop smoke suite")
    group.addoption("--target", metavar="NAME", help="the environment: a folder below inventory/ (dev, local)")
    group.addoption("--inventory", type=Path, metavar="DIR", help="an inventory folder elsewhere: …/inventory/<name>")
    group.addoption(
        "--token-file", default="", metavar="FILE", help="the admin token, for -m disruptive (where a deploy keeps it)"
    )
    group.addoption(
        "--quiet-wait", type=float, default=60.0, metavar="S", help="seconds to wait for a whole and idle pool (60)"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Find the target and switch xdist on, before xdist itself looks at its options. Raises UsageError."""
    if hasattr(config, "workerinput") or config.option.help or config.option.version:
        return
    try:
        inventory = target.find(config.option.target, config.option.inventory, ROOT)
    except target.TargetError as error:
        raise pytest.UsageError(str(error)) from error
    if _disruptive(config) and not inventory.smoke_disruptive:
        knob = f"smoke_disruptive: true in inventory/{inventory.env}/group_vars/all.yml"
        raise pytest.UsageError(f"-m disruptive: {inventory.env} does not allow to take its nodes away ({knob} does)")
    if config.option.collectonly:
        return
    try:
        folder = _new_folder(inventory.home / "smoke")
    except OSError as error:
        raise pytest.UsageError(f"the evidence has no place: {error}") from error
    arguments = [str(one) for one in config.invocation_params.args]
    config.stash[RUN] = Run(inventory, folder, target.environment(inventory, arguments))
    if config.option.xmlpath is None:
        config.option.xmlpath = str(folder / "junit.xml")
    if hasattr(config.option, "numprocesses"):
        if config.option.numprocesses is None and not config.option.usepdb:
            config.option.numprocesses = WORKERS
        if config.option.numprocesses:
            config.option.dist = "loadgroup"  # whatever was asked for: cases that take slots must not run side by side


def pytest_configure(config: pytest.Config) -> None:
    """In the process that reports, listen to the tests' outcomes."""
    config.addinivalue_line("markers", f"{DISRUPTIVE}: takes something away; only -m {DISRUPTIVE} runs it")
    if (run := config.stash.get(RUN, None)) is not None:
        run.reach = reach(run.inventory, run.forwards)
        config.pluginmanager.register(run, "smoke-run")
        History(run.folder, "controller").append(run.environment)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what takes something away, unless it was asked for by its name."""
    if not _disruptive(config):
        left_out = [item for item in items if item.get_closest_marker(DISRUPTIVE)]
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=left_out)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Keep the cases that take slots on one worker."""
    from smoke.scheduling import SlotScheduling  # here, since xdist is there when this is called

    return SlotScheduling(config, log)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: object) -> None:
    """Give a worker what the controller has found, so that the inventory is read once."""
    run: Run = node.config.stash[RUN]  # type: ignore[attr-defined]  # xdist's WorkerController has no types
    node.workerinput["smoke"] = {  # type: ignore[attr-defined]  # as above
        "inventory": run.inventory.model_dump_json(),
        "folder": str(run.folder),
        "reach": msgspec.to_builtins(run.reach),
    }


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Merge and judge everything, write the evidence; what the judge finds fails the run, too."""
    run = session.config.stash.get(RUN, None)
    if run is None:
        return
    History(run.folder, "controller").append(*run.tested())
    judgement = judge(merge(run.folder))
    if session.exitstatus == pytest.ExitCode.OK and not judgement.ok:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    run.line = closing_line(judgement, list(run.outcomes.values()))
    run.report = evidence.write(run.folder, judgement, run.outcomes, run.line)
    run.blockers = list(judgement.reasons)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say what stood in the way."""
    run = config.stash.get(RUN, None)
    if run is None:
        return
    for reason in run.blockers:
        terminalreporter.write_line(f"BLOCKER: {reason}", red=True)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Say where the evidence is, and the one line that sums it up, after everything pytest has to say."""
    run = config.stash.get(RUN, None)
    if run is None:
        return
    run.forwards.close()
    if run.line is not None:
        terminal = config.pluginmanager.get_plugin("terminalreporter")
        if terminal is not None:
            terminal.write_line(f"evidence: {run.report}")
            terminal.write_line(run.line)


@pytest.fixture(scope="session")
def bench(request: pytest.FixtureRequest, worker: str) -> Bench:
    """The worker's bench: target, history, and the means to run rounds."""
    config = request.config
    given = getattr(config, "workerinput", {}).get("smoke")
    if given is None:
        run = config.stash[RUN]
        inventory, folder, reached = run.inventory, run.folder, run.reach
    else:
        inventory, folder = Inventory.model_validate_json(given["inventory"]), Path(given["folder"])
        reached = msgspec.convert(given["reach"], Reach)
    history, env = History(folder, worker), target.environment(inventory)
    return Bench(inventory, env, history, folder.name, quiet_wait=config.option.quiet_wait, reach=reached)


@pytest.fixture(autouse=True)
def _reached(bench: Bench, request: pytest.FixtureRequest) -> None:
    """Where nothing can be reached at all, each case is blocked by that and by nothing else."""
    if bench.reach.trouble:
        pytest.fail(f"blocked: {bench.blocked(request.node.name, bench.reach.trouble)}", pytrace=False)


@pytest.fixture(scope="session")
def worker(request: pytest.FixtureRequest) -> str:
    """This process's name in the history."""
    return str(getattr(request.config, "workerinput", {}).get("workerid", "main"))


def _disruptive(config: pytest.Config) -> bool:
    """Whether `-m` asks for the cases that take something away."""
    return re.search(rf"(?<!not )\b{DISRUPTIVE}\b", config.option.markexpr) is not None


def _new_folder(parent: Path) -> Path:
    """Make the folder of this run, and remove the oldest. Its name tells when, and is unique on this machine."""
    folder = parent / f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{os.getpid()}"
    folder.mkdir(parents=True)
    evidence.prune(parent)
    return folder
