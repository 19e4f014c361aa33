"""Loading: the smallest files, unreadable files, hashes, relative paths, agreement of file and text."""

import hashlib
from pathlib import Path

import pytest

from iop.config.load import UnreadableFile, load_control, load_edge, load_node, read_edge
from tests.fakes.config_files import CONTROL, EDGE, NODE, changed


def _write(folder: Path, text: str | bytes, name: str = "edge.yaml") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_the_smallest_files_load_without_a_finding(tmp_path: Path) -> None:
    """The three smallest files of the interface are complete."""
    edge = load_edge(_write(tmp_path, EDGE))
    node = load_node(_write(tmp_path, NODE, "node.yaml"))
    control = load_control(_write(tmp_path, CONTROL, "control.yaml"))
    assert edge.findings == node.findings == control.findings == ()
    assert edge.config is not None
    assert node.config is not None
    assert control.config is not None
    assert edge.config.nodes[0].adapters.cli.targets["echo"].command == ("python3", "/abs/agent.py")
    assert edge.config.nodes[0].adapters.openai_compat_instances[0].endpoint == "http://127.0.0.1:8002/v1"
    assert edge.config.models[0].providers == {"p1": "engine-model"}
    assert str(node.config.edge.addr) == "127.0.0.1:18084"
    assert control.config.edges[0].id == "edge-test"


def test_what_cannot_be_read_is_no_finding(tmp_path: Path) -> None:
    """A missing file and a folder raise, with the path and the system's reason."""
    with pytest.raises(UnreadableFile, match=r"none\.yaml: No such file"):
        load_edge(tmp_path / "none.yaml")
    with pytest.raises(UnreadableFile, match="cannot read"):
        load_node(tmp_path)


def test_findings_name_the_file_as_it_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative path stays relative in findings, `source` is absolute."""
    _write(tmp_path, "a: [\n")
    monkeypatch.chdir(tmp_path)
    loaded = load_edge(Path("edge.yaml"))
    assert not loaded.ok
    assert loaded.config is None
    assert loaded.findings[0].file == "edge.yaml"
    assert loaded.source == str(tmp_path / "edge.yaml")


@pytest.mark.parametrize("text", [EDGE, "\ufeff" + EDGE.replace("\n", "\r\n")])
def test_file_and_text_agree(text: str, tmp_path: Path) -> None:
    """Field case B48: check (file) and refresh (its text) see the same hash, config and findings."""
    path = _write(tmp_path, text)
    from_file = load_edge(path)
    from_text = read_edge(from_file.text, source=str(path))
    assert from_file.ok
    assert from_file == from_text
    assert from_file.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("raw", [EDGE.encode("utf-16"), EDGE.encode() + b"\xff\n", b""])
def test_unfit_bytes_are_findings(raw: bytes, tmp_path: Path) -> None:
    """Field case B52: a file in another encoding, or an empty one, is refused with a line."""
    loaded = load_edge(_write(tmp_path, raw))
    assert (loaded.ok, len(loaded.findings)) == (False, 1)
    assert loaded.sha256 == hashlib.sha256(raw).hexdigest()


@pytest.mark.parametrize("length", range(0, len(EDGE), 29))
def test_a_half_written_file_never_crashes(length: int) -> None:
    """Field case B48: any prefix of a config is either refused with a place or a whole config."""
    loaded = read_edge(EDGE[:length], source="/cfg/edge.yaml")
    assert loaded.ok or all(finding.line >= 1 and finding.message for finding in loaded.findings)


def test_relative_paths_are_taken_from_the_folder_of_the_file(tmp_path: Path) -> None:
    """Paths of this machine are absolute once loaded; those of the node stay as they are written."""
    (tmp_path / "admin.tok").write_text("t")
    (tmp_path / "admin.tok").chmod(0o600)
    text = changed(
        ("nodes:\n", "auth: {admin_token_file: admin.tok}\nnodes:\n"),
        ("kind: text", "kind: text, cwd: work"),
        ('8002/v1"}', '8002/v1", api_key_file: engine.key}'),
    )
    config = read_edge(text, source=str(tmp_path / "edge.yaml")).config
    assert config is not None
    assert config.auth.admin_token_file == str(tmp_path / "admin.tok")
    assert config.nodes[0].adapters.cli.targets["echo"].cwd == "work"
    assert config.nodes[0].adapters.openai_compat_instances[0].api_key_file == "engine.key"


def test_warnings_do_not_fail() -> None:
    """A config with warnings only is loaded, with its findings."""
    loaded = read_edge(changed(("provider: other", "provider: vllm")), source="/cfg/edge.yaml")
    assert loaded.ok
    assert [finding.code for finding in loaded.findings] == ["type_mismatch"]


def test_files_that_are_named_are_told_apart_from_the_text(tmp_path):
    """A file that cannot be read makes the config unusable here, but it is not wrong in itself."""
    text = (
        "edge: {id: e}\nnodes: []\nmodels: []\nauth: {admin_token_file: gone}\ntls: {nodes: {cert: gone, key: gone}}\n"
    )
    path = tmp_path / "edge.yaml"
    for more, wrong in (("", False), ("nonsense: 1\n", True)):
        path.write_text(text + more, encoding="utf-8")
        loaded = load_edge(path)
        assert (loaded.ok, loaded.wrong_in_itself) == (False, wrong)
