"""TLS for listeners: a context from the files that the configuration names."""

import ssl

from tidings.broker.config_tables import TlsTable
from tidings.errors import ConfigError


def server_context(tls: TlsTable) -> ssl.SSLContext:
    """TLS 1.2 or later. A ConfigError names the file that does not do."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    try:
        # Without a pass phrase: a broker that asks for one at start cannot be restarted by a machine.
        context.load_cert_chain(tls.certificate, tls.key or None, password=_no_pass_phrase)
    except (OSError, ValueError) as error:
        raise ConfigError([f"tls.certificate, tls.key: {_why(error, tls.certificate)}; give a PEM pair"]) from None
    if tls.client_ca:
        try:
            context.load_verify_locations(tls.client_ca)
        except (OSError, ValueError) as error:
            raise ConfigError([f"tls.client_ca: {_why(error, tls.client_ca)}; give a PEM file"]) from None
        context.verify_mode = ssl.CERT_REQUIRED if tls.require_client else ssl.CERT_OPTIONAL
    return context


def _no_pass_phrase() -> str:
    raise ValueError("the key is encrypted; store it without a pass phrase, readable by the broker only")


def _why(error: Exception, name: str) -> str:
    if isinstance(error, ssl.SSLError):
        return f"{name} is not usable ({error.reason or error})"
    if isinstance(error, OSError):
        return f"{error.filename or name} cannot be read ({error.strerror})"
    return str(error)
