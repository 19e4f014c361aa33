"""Rules on safety: who can reach what, and by which way; secrets that stand in the file; what is not there yet."""

import re
from collections.abc import Iterator

from iop.config.document import View
from iop.config.findings import Finding
from iop.config.models import Listen
from iop.config.scalars import Address, parse_address

#: the shapes of well-known tokens: OpenAI, GitHub, Hugging Face, Slack, AWS, JWT
_SECRET_VALUE = re.compile(
    r"(sk-[A-Za-z0-9_-]{8,}|gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{16,}|hf_[A-Za-z0-9]{16,}|xox[a-z]-[\w-]{10,}"
    r"|AKIA[A-Z0-9]{16}|eyJ[\w-]{10,}\.[\w-]{10,})"
)
_SECRET_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD)$", re.IGNORECASE)
_OPEN_HINT = "set {tls} and auth.admin_token_file, or listen on 127.0.0.1"
_FILE_HINT = "keep it in a file of mode 0600 and name that file, or store its SHA-256"


def address(section: View, name: str, default: Address) -> Address | None:
    """The address under a key, the default when it is absent, None when it cannot be read."""
    data = section.child(name).data
    if data is None:
        return default
    try:
        return parse_address(data)
    except ValueError:
        return None


def listens(root: View) -> dict[str, Address]:
    """The readable listen addresses of edge.yaml by name."""
    defaults, section = Listen(), root.child("listen")
    found = {
        "openai": address(section, "openai", defaults.openai),
        "nodes": address(section, "nodes", defaults.nodes),
        "admin": address(section, "admin", defaults.admin),
    }
    return {name: where for name, where in found.items() if where is not None}


def same_port(root: View) -> Iterator[Finding]:
    """No two listeners of the Edge want the same address (port 0 = any free one)."""
    seen: list[tuple[str, Address]] = []
    for name, where in listens(root).items():
        clash = next((other for other, taken in seen if _collide(taken, where)), None)
        if clash is not None:
            message = f"{where} is also the address of listen.{clash}"
            yield root.child("listen").child(name).error("duplicate_address", message, "give each its own port")
        seen.append((name, where))


def _collide(one: Address, two: Address) -> bool:
    if one.port != two.port or one.port == 0:
        return False
    hosts = [{"localhost": "127.0.0.1"}.get(where.host, where.host) for where in (one, two)]
    return hosts[0] == hosts[1] or one.is_unspecified or two.is_unspecified


def openai_listener(root: View) -> Iterator[Finding]:
    """Beyond loopback the OpenAI API needs keys, and keys need TLS."""
    where = listens(root).get("openai")
    if where is None or where.is_loopback:
        return
    place = root.child("listen").child("openai")
    if not root.child("auth").items("api_keys"):
        message = f"{where} can be reached from other machines, and there are no API keys"
        yield place.error("open_without_keys", message, "add auth.api_keys, or listen on 127.0.0.1")
    elif root.child("tls").child("openai").data is None:
        message = f"API keys travel over plain HTTP to {where}"
        yield place.warning("keys_over_plain_http", message, "set tls.openai, or listen on 127.0.0.1")


def admin_listener(root: View) -> Iterator[Finding]:
    """Beyond loopback the admin API needs TLS and a token."""
    where = listens(root).get("admin")
    if where is None or where.is_loopback:
        return
    if root.child("tls").child("admin").data is None or root.child("auth").text("admin_token_file") is None:
        message = f"the admin API at {where} can be reached from other machines without TLS and token"
        yield root.child("listen").child("admin").error("open_admin", message, _OPEN_HINT.format(tls="tls.admin"))


def node_listener(root: View) -> Iterator[Finding]:
    """Beyond loopback the node link needs TLS (or `link.insecure`), and each node a token."""
    where = listens(root).get("nodes")
    if where is None or where.is_loopback:
        return
    if root.child("tls").child("nodes").data is None and root.child("link").child("insecure").data is not True:
        message = f"the node link at {where} can be reached from other machines without TLS"
        hint = "set tls.nodes, listen on 127.0.0.1, or accept a trusted network with link.insecure: true"
        yield root.child("listen").child("nodes").error("open_link", message, hint)
    for node in root.items("nodes"):
        if node.text("token_file") is None and node.text("token_sha256") is None:
            message = f"the node {node.text('id')} has no token and may connect from loopback only"
            yield node.warning("node_without_token", message, "set token_file or token_sha256")


def node_tokens(root: View) -> Iterator[Finding]:
    """A node's token is known by file or by hash, not both."""
    for node in root.items("nodes"):
        if node.child("token_file").data is not None and node.child("token_sha256").data is not None:
            message = "token_file and token_sha256 both stand here"
            yield node.child("token_sha256").error("two_tokens", message, "keep one of them", key=True)


def control_listener(root: View) -> Iterator[Finding]:
    """Beyond loopback the Control Plane needs TLS and a token."""
    where = address(root, "listen", Address("127.0.0.1", 18001))
    if where is None or where.is_loopback:
        return
    auth = root.child("auth")
    has_token = auth.text("admin_token_file") is not None or bool(auth.items("api_keys"))
    if root.child("tls").data is None or not has_token:
        message = f"the Control Plane at {where} can be reached from other machines without TLS and token"
        yield root.child("listen").error("open_control", message, _OPEN_HINT.format(tls="tls"))


def dialled_edge(root: View) -> Iterator[Finding]:
    """A node that dials another machine without TLS shows its token, and what it is asked, to the network."""
    target = root.child("edge")
    where = address(target, "addr", Address("127.0.0.1", 0))
    if where is None or where.is_loopback or target.child("ca_file").data is not None:
        return
    message = f"the link to {where} is not encrypted: token, requests and answers can be read on the way"
    yield target.child("addr").warning("plain_link", message, "set edge.ca_file, and tls.nodes on the Edge")


def watched_edges(root: View) -> Iterator[Finding]:
    """A CA is of use with an https URL only."""
    for edge in root.items("edges"):
        url = edge.text("admin_url")
        if edge.child("ca_file").data is not None and url is not None and not url.lower().startswith("https://"):
            message = "ca_file has no effect: admin_url does not begin with https://"
            yield edge.child("ca_file").error(
                "ca_without_tls", message, "write https://, or take ca_file out", key=True
            )


def secrets(root: View) -> Iterator[Finding]:
    """No secret stands as a value, wherever it is; the findings do not repeat it."""
    for place in _walk(root):
        if isinstance(place.data, str) and _SECRET_VALUE.search(place.data):
            yield place.error("secret_in_config", "a value that looks like a secret stands here", _FILE_HINT)
    for node in root.items("nodes"):
        for _, target in node.child("adapters").child("cli").pairs("targets"):
            for name, place in target.pairs("env"):
                if _SECRET_NAME.search(name) and isinstance(place.data, str) and not _SECRET_VALUE.search(place.data):
                    message = f"{name} looks like a secret that stands here as a value"
                    yield place.warning("secret_in_config", message, "let the agent read it on its host")


def _walk(view: View) -> Iterator[View]:
    yield view
    if isinstance(view.data, dict):
        for key in view.data:
            yield from _walk(view.child(key))
    elif isinstance(view.data, list):
        for index, entry in enumerate(view.data):
            yield from _walk(View(view.document, (*view.path, index), entry))
