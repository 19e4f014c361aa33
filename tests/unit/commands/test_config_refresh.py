"""`edge config refresh` against a stand-in admin port."""

import argparse
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from iop.commands import config_refresh

TEXT = """\
edge: {id: edge-test}
nodes:
  - id: n1
    adapters:
      openai_compat_instances:
        - {name: e1, enabled: true, provider: other, endpoint: "http://127.0.0.1:8002/v1"}
    providers:
      - {id: p1, type: other, category: local_inference, adapter: e1, capacity: 3}
models:
  - {id: m, providers: {p1: engine-model}}
"""
PLAN = {
    "mode": "dry-run",
    "generation": 1,
    "new_generation": None,
    "changes": [],
    "restart_required": [],
    "findings": [],
    "nodes": [],
}
CHANGE = {"kind": "resized", "path": "nodes[n1].providers[p1].capacity", "from": 4, "to": 3, "over_by": 1}
FINDING = {
    "severity": "error",
    "code": "generation_mismatch",
    "file": "f",
    "line": 1,
    "column": 1,
    "path": "",
    "message": "moved on",
    "hint": "",
}


class FakeAdmin:
    """Answers every POST alike and keeps headers and bodies of what came."""

    def __init__(self):
        self.status, self.body = 200, PLAN
        self.asked = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.asked.append((self.path, self.headers.get("Authorization"), body))
                data = json.dumps(outer.body).encode()
                self.send_response(outer.status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *args):
                """Stay quiet."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.addr = f"127.0.0.1:{self.server.server_port}"


@pytest.fixture
def admin():
    """Serve a stand-in admin port."""
    fake = FakeAdmin()
    thread = threading.Thread(target=fake.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield fake
    fake.server.shutdown()
    fake.server.server_close()
    thread.join()


@pytest.fixture
def config(tmp_path):
    """Write a good config with the token that `serve` leaves beside it."""
    path = tmp_path / "edge.yaml"
    path.write_text(TEXT, encoding="utf-8")
    (tmp_path / "admin.token").write_text("beside\n", encoding="utf-8")
    return path


def run(config, addr, *more, mode="dry-run"):
    """Parse and run one command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--config")
    config_refresh.add_parsers(parser.add_subparsers())
    start = ["--config", str(config)] if config else []
    args = parser.parse_args([*start, "refresh", "--mode", mode, "--addr", addr, *more])
    return args.run(args)


def test_the_text_and_its_absolute_path_are_posted(admin, config, monkeypatch):
    """The Edge gets the file as it is, where it stands, the generation, the patience, and the token beside the file."""
    monkeypatch.chdir(config.parent)
    assert run("edge.yaml", admin.addr, "--expect-generation", "4", "--timeout", "2s") == 0
    ((path, token, body),) = admin.asked
    assert (path, token) == ("/config/refresh", "Bearer beside")
    assert body == {
        "mode": "dry-run",
        "config": TEXT,
        "source": str(config),
        "expect_generation": 4,
        "ack_timeout_s": 2.0,
    }


def test_a_token_file_goes_before_the_configured_one_before_the_one_beside(admin, config):
    """--token-file wins, then auth.admin_token_file of the file, then admin.token."""
    for name in ("given", "configured"):
        (config.parent / name).write_text(f"{name}\n", encoding="utf-8")
        (config.parent / name).chmod(0o600)
    config.write_text(TEXT + "auth: {admin_token_file: configured}\n", encoding="utf-8")
    assert run(config, admin.addr) == 0
    assert run(config, admin.addr, "--token-file", str(config.parent / "given")) == 0
    assert [token for _, token, _ in admin.asked] == ["Bearer configured", "Bearer given"]


def test_nothing_to_do_is_said(admin, config, capsys):
    """An identical file ends with 0 and these words."""
    assert run(config, admin.addr) == 0
    assert capsys.readouterr().out == "nothing to do (generation 1)\n"


def test_a_plan_is_lines_and_exit_0(admin, config, capsys):
    """Each change is one line with its kind, path, both values and the debt."""
    admin.body = PLAN | {"changes": [CHANGE]}
    assert run(config, admin.addr) == 0
    out = capsys.readouterr().out
    assert "resized: nodes[n1].providers[p1].capacity: 4 -> 3 (over by 1" in out
    assert out.endswith("1 change can be applied live (generation 1)\n")


def test_json_is_the_answer_as_it_is(admin, config, capsys):
    """--json prints the Edge's object, every key present."""
    admin.body = PLAN | {"changes": [CHANGE]}
    assert run(config, admin.addr, "--json") == 0
    assert json.loads(capsys.readouterr().out) == admin.body


@pytest.mark.parametrize("mode", ["dry-run", "apply"])
def test_restart_required_is_3_with_reasons(admin, config, capsys, mode):
    """Both modes end with 3 and name each field and why."""
    admin.body = PLAN | {"changes": [CHANGE], "restart_required": [{"path": "listen.openai", "reason": "socket"}]}
    assert run(config, admin.addr, mode=mode) == 3
    assert "restart required: listen.openai: socket" in capsys.readouterr().out


@pytest.mark.parametrize(("acknowledged", "code"), [(True, 0), (False, 5)])
def test_an_apply_tells_which_nodes_acknowledged(admin, config, capsys, acknowledged, code):
    """All acknowledged is 0; one that did not in time is 5, and named."""
    nodes = [{"id": "n1", "acknowledged": True}, {"id": "n2", "acknowledged": acknowledged}]
    admin.body = PLAN | {"mode": "apply", "changes": [CHANGE], "new_generation": 2, "nodes": nodes}
    assert run(config, admin.addr, mode="apply") == code
    out = capsys.readouterr().out
    assert ("node n2: did not" in out) is not acknowledged
    assert "generation 1 -> 2" in out


@pytest.mark.parametrize("status", [409, 422])
def test_a_refused_candidate_is_1_with_the_findings(admin, config, capsys, status):
    """A moved generation and the Edge's own findings end with 1."""
    admin.status, admin.body = status, PLAN | {"findings": [FINDING]}
    assert run(config, admin.addr) == 1
    assert "f:1:1: error generation_mismatch: moved on" in capsys.readouterr().out


@pytest.mark.parametrize("mode", ["dry-run", "apply"])
def test_errors_in_the_file_are_1_with_their_place(admin, config, capsys, mode):
    """The file is checked here first; only a refused apply is told to the Edge, in a way it can never apply."""
    config.write_text(TEXT.replace("capacity: 3", "capacty: 3"), encoding="utf-8")
    assert run(config, admin.addr, "--json", mode=mode) == 1
    body = json.loads(capsys.readouterr().out)
    assert set(body) == set(PLAN)
    assert {finding["line"] for finding in body["findings"]} == {8}
    assert [asked["expect_generation"] for _, _, asked in admin.asked] == ([-1] if mode == "apply" else [])


def test_errors_in_the_file_need_no_edge(config):
    """A bad file is 1 even when nobody listens."""
    config.write_text("edge: [\n", encoding="utf-8")
    assert run(config, "127.0.0.1:1", mode="apply") == 1


def test_nobody_there_is_4(config, capsys):
    """A dead address is named on stderr."""
    assert run(config, "127.0.0.1:1") == 4
    assert "127.0.0.1:1" in capsys.readouterr().err


def test_a_refused_token_is_4(admin, config, capsys):
    """A wrong token ends with 4 and the Edge's words; without any token the Edge is still asked."""
    admin.status, admin.body = 401, {"error": {"message": "needs the admin token", "code": "invalid_api_key"}}
    (config.parent / "admin.token").unlink()
    assert run(config, admin.addr) == 4
    assert "needs the admin token" in capsys.readouterr().err
    assert admin.asked[0][1] is None


def test_a_bad_request_is_1(admin, config):
    """Any other error of the Edge is a refusal."""
    admin.status, admin.body = 400, {"error": {"message": "no", "code": "invalid_body"}}
    assert run(config, admin.addr) == 1


@pytest.mark.parametrize("what", ["config", "token", "ca", "none"])
def test_unreadable_files_are_2(config, tmp_path, what):
    """A config, token or CA that the system cannot read, or no --config at all, is a usage error."""
    gone = str(tmp_path / "gone")
    more = {"token": ["--token-file", gone], "ca": ["--ca-file", gone]}.get(what, [])
    path = {"config": gone, "none": None}.get(what, config)
    assert run(path, "127.0.0.1:1", *more) == 2


def test_a_token_that_cannot_be_one_is_2(config, tmp_path, capsys):
    """An empty or binary token file is named, its contents are not."""
    for content in (b"", b"sec\nret", "gehéim".encode()):
        (tmp_path / "token").write_bytes(content)
        assert run(config, "127.0.0.1:1", "--token-file", str(tmp_path / "token")) == 2
    assert "ret" not in capsys.readouterr().err.replace("refresh", "")


@pytest.mark.parametrize("more", [["--timeout", "15"], ["--timeout", "soon"], ["--expect-generation", "x"]])
def test_bad_options_are_usage_errors(config, more):
    """A duration without a unit, or a generation that is no number, ends with 2."""
    with pytest.raises(SystemExit) as ended:
        run(config, "127.0.0.1:1", *more)
    assert ended.value.code == 2


def test_a_bad_address_is_a_usage_error(config):
    """An address without a port ends with 2."""
    with pytest.raises(SystemExit) as ended:
        run(config, "localhost")
    assert ended.value.code == 2


def test_files_that_only_the_edge_can_see_are_the_edges_to_judge(admin, config, tmp_path):
    """A certificate of another account is no reason to refuse here; an error in the text still is."""
    (tmp_path / "given").write_text("given")
    hidden = "tls: {nodes: {cert: /gone/edge.pem, key: /gone/edge.key}}\nauth: {admin_token_file: /gone/admin.token}\n"
    config.write_text(TEXT + hidden, encoding="utf-8")

    assert run(config, admin.addr, "--token-file", str(tmp_path / "given")) == 0
    assert [(asked[1], asked[2]["config"]) for asked in admin.asked] == [("Bearer given", TEXT + hidden)]
    config.write_text(TEXT + hidden + "nonsense: 1\n", encoding="utf-8")
    assert run(config, admin.addr, "--token-file", str(tmp_path / "given")) == 1
    assert len(admin.asked) == 1
