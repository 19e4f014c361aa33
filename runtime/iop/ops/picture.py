"""What `fab status` and `fab doctor` show on a terminal. Needs `rich`, which comes with `.[deploy]`."""

from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

GOOD, BAD, DIM = "green", "bold red", "dim"


def status(found: dict[str, Any]) -> RenderableType:
    """The facts as two tables."""
    found = _shown(found)
    head = _banner(found)
    edge = found["edge"]
    if edge is None:
        head.append(Text(f"Edge: {found['trouble']}", style=BAD))
    else:
        head.append(Text(f"{edge['id']} · release {edge['release_id']} · {edge['url']}"))
        if found["control_trouble"]:
            head.append(Text(f"Control Plane: {found['control_trouble']}", style=BAD))
    return Group(*head, _hosts(found["hosts"]), _providers(found))


def doctor(found: dict[str, Any]) -> RenderableType:
    """The findings, each with its next command, and the slots in the last line."""
    found = _shown(found)
    lines = _banner(found)
    for one in found["findings"]:
        lines.append(Text.assemble((f"{one['where']}: ", BAD), one["message"]))
        lines.append(Text(f"  next: {one['step']}", style="cyan"))
    slots = found["slots"]
    text = f"{slots['ready']} of {slots['declared']} slots take work"
    problems = len(found["findings"])
    lines.append(Text(f"{text}; {problems} finding{'' if problems == 1 else 's'}", GOOD if found["well"] else BAD))
    return Group(*lines)


def _shown(told: Any) -> Any:  # noqa: ANN401 - any JSON
    """The same without what steers a terminal: hosts, engines and clients choose some of these words."""
    if isinstance(told, dict):
        return {key: _shown(value) for key, value in told.items()}
    if isinstance(told, list):
        return [_shown(one) for one in told]
    if isinstance(told, str):
        return "".join(char if char.isprintable() or char in "\n\t" else "\ufffd" for char in told)
    return told


def _cell(text: str) -> Text:
    """Words as they are: brackets are no markup."""
    return Text(text)


def _banner(found: dict[str, Any]) -> list[Text]:
    return [Text(found["banner"], style="yellow")] if found["banner"] else []


def _hosts(hosts: list[dict[str, Any]]) -> Table:
    table = Table("host", "node", "link", "release", "services")
    for host in hosts:
        services = Text("\n").join(
            Text(f"{one['name']} {one['state']}", style=GOOD if one["state"] == "running" else BAD)
            for one in host["services"]
        )
        if host["trouble"]:
            services = Text(host["trouble"], BAD)
        link = Text(host["state"], style=GOOD if host["connected"] else BAD)
        table.add_row(
            host["name"],
            _cell(host["node"]),
            link,
            _cell(host["release"] or "-"),
            services or Text("not deployed", DIM),
        )
    return table


def _providers(found: dict[str, Any]) -> Table:
    table = Table("provider", "node", "state", "in flight", "queued", "capacity")
    for one in found["providers"]:
        state = one["state"] if not one.get("reason") else f"{one['state']}: {one['reason']}"
        numbers = [str(one[name]) for name in ("in_flight", "queued", "capacity")]
        style = GOOD if one["state"] == "ready" else BAD
        table.add_row(_cell(one["provider_id"]), _cell(one["node_id"]), Text(state, style), *numbers)
    totals = found["totals"]
    if totals:
        table.add_section()
        table.add_row("total", "", "", *(str(totals[name]) for name in ("in_flight", "queued", "capacity")))
    return table
