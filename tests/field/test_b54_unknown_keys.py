"""Field case B54: unknown keys never pass silently."""

from pathlib import Path

import pytest

from tests.fakes.config_files import EDGE, changed
from tests.fakes.edge_under_test import edge_under_test
from tests.fakes.refreshing import check, refresh

PROVIDERS = EDGE[EDGE.index("    providers:") : EDGE.index("models:")]
TYPOS = {
    "capcity": (changed(("capacity: 3", "capcity: 3")), 10, "did you mean capacity?"),
    "camelCase": (changed(("3}", "3, onDisconnect: finish}")), 10, "did you mean on_disconnect?"),
    "authh": (f"authh: {{admin_token_file: t}}\n{EDGE}", 1, "did you mean auth?"),
    "camelCase section": (f"auth: {{adminTokenFile: t}}\n{EDGE}", 1, "did you mean admin_token_file?"),
    "column 0": (changed((PROVIDERS, PROVIDERS.replace("    p", "p", 1))), 9, "check the indentation"),
    "elsewhere": (f"capacity: 3\n{EDGE}", 1, "it belongs under"),
    "dash": (changed(("edge: {", "queue: {max-waiting: 3}\nedge: {")), 1, "did you mean max_waiting?"),
    "nothing like it": (changed(("edge: {", "edge: {colour: red, ")), 1, "known here: id"),
}


@pytest.mark.parametrize("name", TYPOS)
async def test_b54_an_unknown_key_is_told_with_the_nearest_known_one(tmp_path: Path, name: str) -> None:
    """Field case B54: exit code 1, path, line and what to write instead."""
    text, line, hint = TYPOS[name]
    (tmp_path / "edge.yaml").write_text(text)
    code, findings = await check(tmp_path / "edge.yaml")
    unknown = [one for one in findings if one["code"] in {"unknown_key", "secret_in_config"}]
    assert code == 1
    assert [one["line"] for one in unknown] == [line]
    assert hint in unknown[0]["hint"]
    assert unknown[0]["path"]


async def test_b54_a_refresh_refuses_such_a_file(tmp_path: Path) -> None:
    """Field case B54: the running Edge keeps its config, whichever key was misspelt."""
    async with edge_under_test(tmp_path) as edge:
        path = tmp_path / "next.yaml"
        for name, (text, _, _) in TYPOS.items():
            path.write_text(text)
            assert (await refresh(edge.ready["admin"], path))[0] == 1, name
            assert edge.status()["config"]["generation"] == 1, name


async def test_b54_an_edge_of_nothing_is_a_warning_and_x_is_the_way_out(tmp_path: Path) -> None:
    """Field case B54: no provider and no model are told; a key that starts with x- is passed over on purpose."""
    path = tmp_path / "edge.yaml"
    path.write_text("edge: {id: e, x-owner: me}\nnodes: []\nmodels: []\nx-note: {any: thing}\n")
    code, findings = await check(path)
    assert code == 0
    assert [(one["severity"], one["code"]) for one in findings] == [
        ("warning", "no_providers"),
        ("warning", "no_models"),
    ]
