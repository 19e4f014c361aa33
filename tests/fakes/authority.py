"""A certificate authority in a folder, as somebody makes one by hand."""

import ssl
from datetime import UTC, datetime
from pathlib import Path

import trustme

from iop.transport.tls import ClientTls, ServerTls, client_context

#: validity of certificates that are too old and too new
PAST = {"not_before": datetime(2020, 1, 1, tzinfo=UTC), "not_after": datetime(2021, 1, 1, tzinfo=UTC)}
FUTURE = {"not_before": datetime(2999, 1, 1, tzinfo=UTC), "not_after": datetime(2999, 2, 1, tzinfo=UTC)}


class Authority:
    """`ca_file` is what clients trust; `issue` writes `<name>.pem` and `<name>.key` for names and addresses."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self.folder = folder
        self.ca_file = folder / f"{name}.pem"
        self._ca = trustme.CA()
        self._ca.cert_pem.write_to_path(self.ca_file)

    def issue(self, name: str, *identities: str, **validity: datetime) -> dict[str, str]:
        """The pair as a config names it; default: for 127.0.0.1 and localhost."""
        made = self._ca.issue_cert(*(identities or ("127.0.0.1", "localhost")), **validity)
        pair = {"cert": str(self.folder / f"{name}.pem"), "key": str(self.folder / f"{name}.key")}
        Path(pair["cert"]).write_bytes(b"".join(part.bytes() for part in made.cert_chain_pems))
        made.private_key_pem.write_to_path(pair["key"])
        Path(pair["key"]).chmod(0o600)
        return pair

    def server(self, name: str = "server", *identities: str, **validity: datetime) -> ServerTls:
        """A listener's end with a pair of its own."""
        return ServerTls(**self.issue(name, *identities, **validity))

    def trust(self) -> ssl.SSLContext:
        """A client's end that trusts this authority only."""
        return client_context(str(self.ca_file))

    @property
    def client(self) -> ClientTls:
        """What a dialer asks before each attempt."""
        return self.trust
