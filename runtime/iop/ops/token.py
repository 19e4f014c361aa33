"""The admin token of an environment, from a file of this machine."""

from pathlib import Path

from iop.config.inventory import Inventory


class NoToken(Exception):
    """There is no admin token here; the text names where one is looked for."""


def admin_token(inventory: Inventory, given: str = "") -> str:
    """The token in the file `given`, else where a deploy of this environment keeps it. Raises `NoToken`."""
    trust, beside = inventory.home / "trust" / "edge.admin.token", inventory.home / "admin.token"
    places = [Path(given)] if given else [trust, beside] if inventory.kind == "remote" else [beside, trust]
    for path in places:
        try:
            token = path.read_text(encoding="ascii").strip()
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            raise NoToken(f"{path} holds no token that can be read: {error}") from error
        if token and token.isprintable():
            return token
        raise NoToken(f"{path} holds no token: expected one line of printable ASCII")
    where = " or ".join(str(path) for path in places)
    raise NoToken(f"no admin token at {where}: deploy from this checkout, or give --token-file")
