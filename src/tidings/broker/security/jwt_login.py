"""Logins by JSON Web Token (RFC 7519): verified by public keys, claims become a user and groups.

A client sends the token in the place of its password. Only the algorithms that are configured count, and each key only
for those of its own type. A token must have an expiry, the configured audience and issuer, and a user's name.

Keys are those of a JWKS document or one PEM public key. What a URL leads to is fetched when it is first needed, again
after `refresh_seconds`, and when a token names a key that is not there, at most every RETRY_SECONDS.
"""

import json
import ssl
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import IO, Any

from tidings.broker.config.jwt import JwtTable
from tidings.broker.security.users import NAME
from tidings.errors import ConfigError, SecurityError
from tidings.extras import lazy

jwt: Any = lazy("jwt")

TOKEN_BYTES_MAX = 16 << 10
DOCUMENT_BYTES_MAX = 1 << 20
FETCH_SECONDS, RETRY_SECONDS = 5.0, 10.0
GROUPS_MAX = 1_000
KINDS = ("RSA", "EC", "OKP")  # of public keys
KEYS_TRIED_MAX = 8  # for a token that names none


@dataclass(frozen=True, slots=True)
class TokenUser:
    """The user of a token, as it was verified."""

    name: str
    groups: frozenset[str]
    expires_s: float  # by the wall clock, with leeway


@dataclass(frozen=True, slots=True)
class PublicKey:
    key: Any  # of the cryptography package
    kind: str  # one of KINDS
    name: str | None = None
    algorithm: str | None = None  # None: any for which its kind is right

    def fits(self, name: object, algorithm: str) -> bool:
        """True if a token that names this key, or none, may be signed with it."""
        kind = "OKP" if algorithm == "EdDSA" else "EC" if algorithm[0] == "E" else "RSA"
        named = name is None or self.name is None or self.name == name
        return self.kind == kind and named and self.algorithm in (None, algorithm)


def is_token(text: str) -> bool:
    """True if it has the form of a signed token: passwords of that form cannot be used where tokens can.

    >>> is_token("eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2ln"), is_token("a.b.c")
    (True, False)
    """
    return text.startswith("eyJ") and text.count(".") == 2


class JwtVerifier:
    """`verify` runs on the threads of logins."""

    def __init__(
        self,
        settings: JwtTable,
        fetch: Callable[[str], bytes] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """A ConfigError if keys in a file cannot be read."""
        self.settings = settings
        self._fetch, self._clock = fetch or fetched, clock
        self._lock = Lock()
        self._keys: tuple[PublicKey, ...] = ()
        self._fetched_s: float | None = None
        self._tried_s: float | None = None
        if not settings.by_url:
            try:
                self._keys = keys_of(Path(settings.keys).read_bytes())
            except OSError as error:
                raise ConfigError(
                    [f"jwt.keys: {settings.keys} cannot be read ({error.strerror}); name a file"]
                ) from None
            except ValueError as error:
                raise ConfigError(
                    [f"jwt.keys: {settings.keys}: {error}; give a JWKS document or a PEM public key"]
                ) from None

    def verify(self, token: str) -> TokenUser:
        """The user; a SecurityError with the code E_LOGIN_TOKEN says what is wrong."""
        if len(token) > TOKEN_BYTES_MAX:
            raise refused(f"it is longer than {TOKEN_BYTES_MAX} bytes")
        try:
            header = jwt.get_unverified_header(token)
        except jwt.PyJWTError as error:
            raise refused(str(error)) from None
        claims = self._claims(token, header)
        name, groups = _claim(claims, self.settings.user_claim), _claim(claims, self.settings.groups_claim)
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise refused(f"the claim {self.settings.user_claim} is not the name of a user")
        return TokenUser(name, _groups(groups), float(claims["exp"]) + self.settings.leeway_seconds)

    def _claims(self, token: str, header: dict[str, Any]) -> dict[str, Any]:
        settings, algorithm = self.settings, header.get("alg")
        if algorithm not in settings.algorithms:
            raise refused(f"its algorithm {str(algorithm)[:20]!r} is not allowed")
        error: Exception | None = None
        for key in self._candidates(header.get("kid"), algorithm):
            try:
                found: dict[str, Any] = jwt.decode(
                    token,
                    key,
                    algorithms=[algorithm],
                    audience=settings.audience,
                    issuer=settings.issuer or None,
                    leeway=settings.leeway_seconds,
                    options={"require": ["exp"]},
                )
                return found
            except (jwt.InvalidSignatureError, jwt.InvalidKeyError) as wrong:
                error = wrong
            except jwt.PyJWTError as wrong:
                raise refused(str(wrong)) from None
        raise refused("no key fits it" if error is None else str(error))

    def _candidates(self, name: object, algorithm: str) -> list[Any]:
        """The keys to verify with: the one that the token names, or those whose type fits."""
        found = [one.key for one in self._current() if one.fits(name, algorithm)]
        if not found and self.settings.by_url:
            found = [one.key for one in self._current(again=True) if one.fits(name, algorithm)]
        return found[:KEYS_TRIED_MAX]

    def _current(self, *, again: bool = False) -> tuple[PublicKey, ...]:
        """The keys as they are known, fetched first if it is time."""
        if not self.settings.by_url:
            return self._keys
        with self._lock:
            now = self._clock()
            old = self._fetched_s is None or now - self._fetched_s >= self.settings.refresh_seconds
            if (old or again) and (self._tried_s is None or now - self._tried_s >= RETRY_SECONDS):
                self._tried_s = now
                try:
                    self._keys, self._fetched_s = keys_of(self._fetch(self.settings.keys)), now
                except (OSError, ValueError) as error:
                    if not self._keys:
                        raise SecurityError(
                            "E_LOGIN_KEYS", f"the keys of tokens cannot be fetched: {error}", fatal=True
                        ) from None
            return self._keys


def refused(reason: str) -> SecurityError:
    return SecurityError("E_LOGIN_TOKEN", f"the token is refused: {reason}", fatal=True)


def keys_of(document: bytes) -> tuple[PublicKey, ...]:
    """The public keys in a JWKS document or PEM; other keys are left out. A ValueError if there are none."""
    if not document.lstrip().startswith(b"{"):
        return (_pem_key(document),)
    try:
        listed = json.loads(document).get("keys")
    except (ValueError, AttributeError):
        raise ValueError("not a JWKS document") from None
    found = []
    for one in listed if isinstance(listed, list) else ():
        if isinstance(one, dict) and one.get("kty") in KINDS and one.get("use", "sig") == "sig" and "d" not in one:
            try:
                made = jwt.PyJWK(one)
            except jwt.PyJWTError:
                continue  # of a curve that is not known
            found.append(PublicKey(made.key, one["kty"], one.get("kid"), one.get("alg")))
    if not found:
        raise ValueError("it has no public key for signatures")
    return tuple(found)


def _pem_key(document: bytes) -> PublicKey:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    key = load_pem_public_key(document)
    kind = "RSA" if isinstance(key, RSAPublicKey) else "EC" if isinstance(key, EllipticCurvePublicKey) else "OKP"
    return PublicKey(key, kind)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object, **__: object) -> None:
        return None


def fetched(url: str) -> bytes:
    """A small document by HTTPS, without redirects."""
    handlers = _NoRedirects(), urllib.request.HTTPSHandler(context=ssl.create_default_context())
    answer: IO[bytes]
    with urllib.request.build_opener(*handlers).open(url, timeout=FETCH_SECONDS) as answer:
        data = answer.read(DOCUMENT_BYTES_MAX + 1)
    if len(data) > DOCUMENT_BYTES_MAX:
        raise ValueError(f"more than {DOCUMENT_BYTES_MAX} bytes")
    return data


def _claim(claims: dict[str, Any], name: str) -> object:
    if name in claims:
        return claims[name]
    found: object = claims
    for part in name.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found


def _groups(given: object) -> frozenset[str]:
    """A list of names, or names with spaces between them; others than names of groups are left out."""
    names = given.split() if isinstance(given, str) else given if isinstance(given, list) else []
    return frozenset(name for name in names[:GROUPS_MAX] if isinstance(name, str) and NAME.fullmatch(name))
