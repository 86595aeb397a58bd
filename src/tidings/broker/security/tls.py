"""TLS for listeners and links: contexts from the files that the configuration names."""

import ssl

from tidings.broker.config.tls import TlsTable
from tidings.errors import ConfigError

PLAIN_PEER_ALERT = bytes((21, 3, 3, 0, 2, 2, 70))  # a record with an alert: fatal, protocol_version


class _Shaking(ssl.SSLObject):
    """Attaches OpenSSL's alert for the peer to the error of a failed handshake: event loops discard it."""

    outgoing: ssl.MemoryBIO

    def do_handshake(self) -> None:
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as error:
            error.farewell = self.outgoing.read()  # type: ignore[attr-defined]
            raise


class _Context(ssl.SSLContext):
    sslobject_class = _Shaking

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        made = super().wrap_bio(incoming, outgoing, server_side, server_hostname, session)
        assert isinstance(made, _Shaking)
        made.outgoing = outgoing
        return made


def farewell_of(error: OSError) -> bytes:
    """The alert for a peer whose handshake failed with this error; empty if there is none."""
    if isinstance(error, ssl.SSLError) and error.reason == "WRONG_VERSION_NUMBER":
        return PLAIN_PEER_ALERT  # OpenSSL sends none to a peer without TLS; brokers with plain links understand it
    return getattr(error, "farewell", b"")


def server_context(tls: TlsTable) -> ssl.SSLContext:
    """TLS 1.2 or later. A ConfigError names a file that cannot be used."""
    context = _Context(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    _load_pair(context, tls.certificate, tls.key, "tls")
    if tls.client_ca:
        try:
            context.load_verify_locations(tls.client_ca)
        except (OSError, ValueError) as error:
            raise ConfigError([f"tls.client_ca: {_why(error, tls.client_ca)}; give a PEM file"]) from None
        context.verify_mode = ssl.CERT_REQUIRED if tls.require_client else ssl.CERT_OPTIONAL
    return context


def link_contexts(certificate: str, key: str, ca: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """For links that come in, and for those that are dialled. Both ends must present a certificate signed by
    the CA; the links check the name in it, which is the broker's, not the host's."""
    contexts = _Context(ssl.PROTOCOL_TLS_SERVER), _Context(ssl.PROTOCOL_TLS_CLIENT)
    for context in contexts:
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        _load_pair(context, certificate, key, "network")
        try:
            context.load_verify_locations(ca)
        except (OSError, ValueError) as error:
            raise ConfigError([f"network.ca: {_why(error, ca)}; give a PEM file"]) from None
    return contexts


def _load_pair(context: ssl.SSLContext, certificate: str, key: str, table: str) -> None:
    try:
        # Without a pass phrase: a broker that asks for one at start cannot be restarted by a machine.
        context.load_cert_chain(certificate, key or None, password=_no_pass_phrase)
    except (OSError, ValueError) as error:
        problem = f"{table}.certificate, {table}.key: {_why(error, certificate)}"
        raise ConfigError([f"{problem}; give a PEM pair"]) from None


def _no_pass_phrase() -> str:
    raise ValueError("the key is encrypted; store it without a pass phrase, readable by the broker only")


def _why(error: Exception, name: str) -> str:
    if isinstance(error, ssl.SSLError):
        return f"{name} is not usable ({error.reason or error})"
    if isinstance(error, OSError):
        return f"{error.filename or name} cannot be read ({error.strerror})"
    return str(error)
