"""Options, workers and evidence of the smoke suite: `pytest smoke/ --target dev`.

Workers and `--dist loadgroup` are set here and not by an ini file, so that xdist is on whatever ini pytest picks.
"""

import os
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from iop.admin.forwards import Forwards
from iop.config.inventory import Inventory
from smoke import report, target
from smoke.history import Environment, History, merge
from smoke.judge import closing_line, judge
from smoke.reach import Reach, plain, reach
from smoke.rounds import Bench

ROOT = Path(__file__).resolve().parents[1]
#: the cases are two kinds: those that take slots, one after the other, and a few that only read beside them
WORKERS = 3

RUN = pytest.StashKey["Run"]()


class Run:
    """One run: where the system is, where the evidence goes, what each test came to."""

    def __init__(self, inventory: Inventory, folder: Path, environment: Environment) -> None:
        self.inventory = inventory
        self.folder = folder
        self.environment = environment
        self.outcomes: dict[str, str] = {}
        self.forwards = Forwards(inventory)
        self.reach = plain(inventory)
        self.line: str | None = None
        self.blockers: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the worst outcome of each test's phases."""
        if report.when == "call" or report.outcome != "passed":
            self.outcomes[report.nodeid.split("::", 1)[-1]] = report.outcome


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the suite's options."""
    group = parser.getgroup("smoke", "iop smoke suite")
    group.addoption("--target", metavar="NAME", help="the environment: a folder below inventory/ (dev, local)")
    group.addoption("--inventory", type=Path, metavar="DIR", help="an inventory folder elsewhere: …/inventory/<name>")
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
    if config.option.collectonly:
        return
    folder = _new_folder(inventory.home / "smoke")
    config.stash[RUN] = Run(inventory, folder, target.environment(inventory))
    if config.option.xmlpath is None:
        config.option.xmlpath = str(folder / "junit.xml")
    if hasattr(config.option, "numprocesses"):
        if config.option.numprocesses is None and not config.option.usepdb:
            config.option.numprocesses = WORKERS
        if config.option.numprocesses:
            config.option.dist = "loadgroup"  # whatever was asked for: cases that take slots must not run side by side


def pytest_configure(config: pytest.Config) -> None:
    """In the process that reports, listen to the tests' outcomes."""
    if (run := config.stash.get(RUN, None)) is not None:
        run.reach = reach(run.inventory, run.forwards)
        config.pluginmanager.register(run, "smoke-run")
        History(run.folder, "controller").append(run.environment)


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
    judgement = judge(merge(run.folder))
    if session.exitstatus == pytest.ExitCode.OK and not judgement.ok:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    run.line = closing_line(judgement, list(run.outcomes.values()))
    report.write(run.folder, judgement, run.outcomes, run.line)
    run.blockers = list(dict.fromkeys(blocker.reason for blocker in judgement.blockers))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say what stood in the way, and where the evidence is."""
    run = config.stash.get(RUN, None)
    if run is None:
        return
    for reason in run.blockers:
        terminalreporter.write_line(f"BLOCKER: {reason}", red=True)
    terminalreporter.write_line(f"evidence: {run.folder / 'report.md'}")


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Say the one line that sums it up, after everything pytest has to say."""
    run = config.stash.get(RUN, None)
    if run is None:
        return
    run.forwards.close()
    if run.line is not None:
        terminal = config.pluginmanager.get_plugin("terminalreporter")
        if terminal is not None:
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


def _new_folder(parent: Path) -> Path:
    """Make the folder of this run; its name tells when, and is unique on this machine."""
    folder = parent / f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{os.getpid()}"
    folder.mkdir(parents=True)
    return folder
