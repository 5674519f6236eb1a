"""Create one certificate authority: its certificate for 127.0.0.1 serves the API server and all webhooks."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path

import trustme
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa


@dataclass(frozen=True, slots=True)
class Certificates:
    """The files of one authority.

    Attributes:
        folder: `tls.crt` and `tls.key`, named as controller-runtime wants them.
        authority: the certificate that clients trust.
        service_accounts: the key that tokens of ServiceAccounts are signed with.
    """

    folder: Path
    authority: Path
    service_accounts: Path

    @property
    def certificate(self) -> Path:
        """Return the certificate that every server presents."""
        return self.folder / "tls.crt"

    @property
    def key(self) -> Path:
        """Return the key of the certificate."""
        return self.folder / "tls.key"

    @property
    def bundle(self) -> str:
        """The authority, as `caBundle` and kubeconfig files hold it."""
        return base64.b64encode(self.authority.read_bytes()).decode()


def make_certificates(folder: Path) -> Certificates:
    """A fresh authority with its server certificate, and a key for ServiceAccounts."""
    folder.mkdir(parents=True)
    authority = trustme.CA(organization_name="mpigen tests")
    server = authority.issue_cert("127.0.0.1", "localhost")
    made = Certificates(folder, folder / "ca.crt", folder / "service-accounts.key")
    authority.cert_pem.write_to_path(made.authority)
    server.cert_chain_pems[0].write_to_path(made.certificate)
    server.private_key_pem.write_to_path(made.key)
    made.service_accounts.write_bytes(
        rsa.generate_private_key(65537, 2048).private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return made
