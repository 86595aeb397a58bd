"""The table [tls] of the configuration."""

from dataclasses import dataclass

from tidings.broker.config.schema_reader import setting


@dataclass(frozen=True, slots=True)
class TlsTable:
    certificate: str = setting("", "the server's certificate with its chain (PEM)", reload=True)
    key: str = setting("", "its private key (PEM); empty: the key is in the certificate's file", reload=True)
    client_ca: str = setting(
        "", "the authority that signs client certificates (PEM); their common name is the user", reload=True
    )
    require_client: bool = setting(False, "refuse clients without a certificate", reload=True)
