"""The table [tls] of the configuration."""

from dataclasses import dataclass

from tidings.broker.config.schema_reader import setting


@dataclass(frozen=True, slots=True)
class TlsTable:
    certificate: str = setting("", "the server's certificate and the chain above it, a PEM file", reload=True)
    key: str = setting("", "its private key, a PEM file; empty: it is in the certificate's file", reload=True)
    client_ca: str = setting("", "who signs client certificates (PEM); the common name is then a user", reload=True)
    require_client: bool = setting(False, "turn away clients without a certificate", reload=True)
