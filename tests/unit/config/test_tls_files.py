"""Certificates, keys and CAs on disk: there, of one pair, closed to others."""

import os
from pathlib import Path

import pytest

from iop.config.document import Document
from iop.config.load import load_edge
from iop.config.tls_files import check_tls_files
from tests.fakes.authority import Authority
from tests.fakes.config_files import EDGE

FIRST = "edge: {id: edge-test}\n"


def _found(folder: Path, data: object) -> list[tuple[str, str]]:
    findings = check_tls_files(Document("f.yaml", data), folder)  # type: ignore[arg-type]
    assert all(finding.severity == "error" for finding in findings)
    return [(finding.code, finding.path) for finding in findings]


@pytest.mark.parametrize("place", ["openai", "nodes", "admin", None])
def test_each_pair_is_looked_at(place, tmp_path):
    """Three pairs of an Edge, one of a Control Plane; names are relative to the config's folder."""
    pair = {"cert": "server.pem", "key": "server.key"}
    data = {"tls": {place: pair} if place else pair}
    where = f"tls.{place}" if place else "tls"
    assert _found(tmp_path, data) == [("tls_file", f"{where}.cert")]
    authority = Authority(tmp_path)
    authority.issue("server")
    assert _found(tmp_path, data) == []
    Path(tmp_path / "server.key").unlink()
    assert _found(tmp_path, data) == [("tls_file", f"{where}.key")]
    authority.issue("other")
    Path(tmp_path / "other.key").rename(tmp_path / "server.key")
    assert _found(tmp_path, data) == [("tls_file", f"{where}.key")]
    Path(tmp_path / "server.pem").write_text("no PEM")
    assert _found(tmp_path, data) == [("tls_file", f"{where}.cert")]


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX")
@pytest.mark.parametrize(
    ("mode", "codes"), [(0o600, []), (0o640, []), (0o644, ["tls_key_open"]), (0o602, ["tls_key_open"])]
)
def test_a_key_is_closed_to_others(mode, codes, tmp_path):
    """A key that every user can reach is an error, as a token file is; a certificate may be public."""
    pair = Authority(tmp_path).issue("server")
    Path(pair["key"]).chmod(mode)
    Path(pair["cert"]).chmod(0o644)
    assert [code for code, _ in _found(tmp_path, {"tls": pair})] == codes


@pytest.mark.parametrize("data", [{"edge": {"ca_file": "ca.pem"}}, {"edges": [{}, {"ca_file": "ca.pem"}]}])
def test_a_ca_file_holds_a_certificate(data, tmp_path):
    """Missing, a folder, or without a certificate: an error at its key; a CA passes."""
    path = "edge.ca_file" if "edge" in data else "edges[1].ca_file"
    assert _found(tmp_path, data) == [("tls_file", path)]
    (tmp_path / "ca.pem").mkdir()
    assert _found(tmp_path, data) == [("tls_file", path)]
    (tmp_path / "ca.pem").rmdir()
    (tmp_path / "ca.pem").write_text("-----BEGIN nothing-----\n")
    assert _found(tmp_path, data) == [("tls_file", path)]
    Authority(tmp_path)
    assert _found(tmp_path, data) == []


def test_an_encrypted_key_is_an_error_and_no_question(tmp_path):
    """A passphrase is never asked for on the terminal."""
    pair = Authority(tmp_path).issue("server")
    key = Path(pair["key"])
    key.write_text(
        key.read_text().replace(
            "-----\n", "-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00112233445566778899AABBCCDDEEFF\n\n", 1
        )
    )
    assert [code for code, _ in _found(tmp_path, {"tls": pair})] == ["tls_file"]


def test_what_is_no_path_is_left_to_the_structure(tmp_path):
    """A number, an empty text and a NUL are the structure's findings."""
    for value in (3, "", "a\0b", None):
        assert _found(tmp_path, {"tls": {"cert": value, "key": value}, "edge": {"ca_file": value}}) == []


def test_the_findings_come_with_their_line_before_anything_is_served(tmp_path):
    """Loading a file with a pair that does not match tells file, line and column of the key."""
    authority = Authority(tmp_path)
    authority.issue("a"), authority.issue("b")
    path = tmp_path / "edge.yaml"
    path.write_text(EDGE.replace(FIRST, FIRST + "tls:\n  nodes:\n    cert: a.pem\n    key: b.key\n"))
    loaded = load_edge(path)
    (finding,) = loaded.findings
    assert (finding.code, finding.line, finding.column, finding.message) == (
        "tls_file",
        5,
        10,
        "the key does not belong to the certificate",
    )
    assert not loaded.ok
