"""Cases that only read, or are refused: they run beside the bursts."""

import json
import time
from typing import Any

import httpx
import pytest

from iop.admin.client import AdminRefused, AdminUnreachable, ControlClient
from iop.admin.ssh_trouble import SshTrouble
from iop.commands.config_refresh import EXIT_UNREACHABLE, EXIT_USAGE
from iop.ops.shell import Shell
from smoke.facts import missing
from smoke.history import Blocker, now
from smoke.holding import blockers, see
from smoke.reach import edge_command, token_options
from smoke.rounds import Bench

#: seconds for one ordinary answer on a slow machine
PATIENCE_S = 60.0


def test_reachable(bench: Bench) -> None:
    """The Control Plane shows exactly the declared nodes, connected, and providers, ready, without duplicates."""
    with blockers(bench, "reachable"):
        data = _whole_status(bench)
    for reason in missing(bench.env, data["status"]):
        bench.history.append(Blocker(now(), "reachable", reason))
    see(bench, "reachable", "reachable", data)


def test_models(bench: Bench) -> None:
    """`/v1/models` lists exactly the configured models, and each can be asked for by its id."""
    with (
        blockers(bench, "models"),
        httpx.Client(base_url=bench.reach.openai, headers=_shown(bench), trust_env=False, timeout=PATIENCE_S) as http,
    ):
        listed = http.get("/models").raise_for_status().json()
        one = http.get(f"/models/{bench.env.smoke_model}").raise_for_status().json()
    see(bench, "models", "models", {"ids": [model["id"] for model in listed["data"]], "one": one["id"]})


def test_config_refresh_has_nothing_to_do(bench: Bench) -> None:
    """The operator's dry-run of the deployed config on the live Edge plans nothing."""
    edge, options = edge_command(bench.inventory), token_options(bench.inventory)
    addr = bench.inventory.admin_url.removeprefix("http://")
    arguments = [*f"config refresh --mode dry-run --addr {addr} --json".split(), *options]
    reason = f"{edge[0]} is missing: is {bench.env.env} deployed from this checkout?"
    try:  # on the Edge's host, where the live config is
        done = Shell(bench.inventory, bench.inventory.edge_host).run([*edge, *arguments], patience=PATIENCE_S)
    except SshTrouble as error:
        done, reason = None, str(error)
    if done is None or done.code == 127:
        pytest.fail(f"blocked: {bench.blocked('config-refresh', reason)}", pytrace=False)
    if done.code in {EXIT_USAGE, EXIT_UNREACHABLE}:  # a file that is not there, the token among them; nobody answers
        pytest.fail(f"blocked: {bench.blocked('config-refresh', done.stderr.strip()[-500:])}", pytrace=False)
    data = {"exit": done.code, "plan": _json(done.stdout), "stderr": done.stderr[-500:]}
    see(bench, "config-refresh", "refresh", data)


def test_changes_without_the_token_are_refused(bench: Bench) -> None:
    """A state change on the admin port, dry-run included, is a 401 without the admin token and with a wrong one."""
    body = {"mode": "dry-run", "config": "", "source": "/smoke"}
    answers = {}
    with (
        blockers(bench, "auth"),
        httpx.Client(base_url=bench.reach.admin, trust_env=False, timeout=PATIENCE_S) as http,
    ):
        for what, headers in {"without": {}, "with a wrong token": {"Authorization": "Bearer wrong"}}.items():
            answers[f"refresh {what}"] = _refusal(http.post("/config/refresh", json=body, headers=headers))
            node = next(iter(bench.env.nodes))
            answers[f"undrain {what}"] = _refusal(http.delete(f"/nodes/{node}/drain", headers=headers))
    see(bench, "auth", "refused", {"answers": answers})


def _whole_status(bench: Bench) -> dict[str, Any]:
    """The Control Plane's view once nothing is missing, or the last one when `--quiet-wait` is over."""
    end = time.monotonic() + bench.quiet_wait
    trouble = ""
    with ControlClient(bench.reach.control, timeout=PATIENCE_S) as control:
        while True:
            try:
                data: dict[str, Any] = {"edges": control.edges(), "status": control.status(bench.env.edge_id)}
            except (AdminUnreachable, AdminRefused) as error:
                trouble = str(error)
            else:
                if not missing(bench.env, data["status"]) or time.monotonic() > end:
                    return data
            if time.monotonic() > end:
                raise bench.blocked("reachable", trouble)
            time.sleep(0.2)  # a poll of another process; what is missing is awaited


def _shown(bench: Bench) -> dict[str, str]:
    return {"Authorization": f"Bearer {bench.key}"} if bench.key else {}


def _refusal(response: httpx.Response) -> dict[str, Any]:
    error = _json(response.text).get("error")
    return {"status": response.status_code, "code": error.get("code") if isinstance(error, dict) else None}


def _json(text: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}
