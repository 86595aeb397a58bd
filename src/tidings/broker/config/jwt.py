"""The table [jwt]: logins by tokens."""

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from tidings.broker.config.schema_reader import Problem, setting

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")


@dataclass(frozen=True, slots=True)
class JwtTable:
    keys: str = setting(
        "",
        "public keys: a file (JWKS, or one key as PEM) or the https URL of a JWKS document; empty: no logins by token",
        reload=True,
    )
    algorithms: tuple[str, ...] = setting(
        lambda: ("RS256", "ES256", "EdDSA"),
        "the algorithms that tokens may be signed with",
        choices=ALGORITHMS,
        reload=True,
    )
    audience: str = setting("", "what a token's claim `aud` must contain; needed", reload=True)
    issuer: str = setting("", "what a token's claim `iss` must be; empty: any", reload=True)
    user_claim: str = setting("sub", "the claim with the user's name", reload=True)
    groups_claim: str = setting(
        "groups", "the claim with the user's groups, a list or a text with spaces; dots lead into claims", reload=True
    )
    leeway_seconds: float = setting(30.0, "by so much clocks may differ", minimum=0, maximum=600, reload=True)
    refresh_seconds: float = setting(
        3600.0, "how often a URL is fetched again", minimum=10, maximum=86_400 * 7, reload=True
    )

    @property
    def by_url(self) -> bool:
        return "://" in self.keys


def is_safe_url(url: str) -> bool:
    """
    >>> [is_safe_url(url) for url in ("https://id.example/keys", "http://127.0.0.1:1/keys", "http://id.example/keys")]
    [True, True, False]
    """
    parts = urlsplit(url)
    local = parts.hostname in ("localhost", "127.0.0.1", "::1")
    return parts.scheme == "https" or (parts.scheme == "http" and local)


def problems(table: JwtTable) -> Iterator[Problem]:
    if not table.keys:
        return
    if not table.audience:
        reason = "it is empty: tokens for other services would be accepted"
        yield Problem(("jwt", "audience"), reason, "give the name that tokens for this broker have in `aud`")
    if not table.algorithms:
        yield Problem(("jwt", "algorithms"), "it is empty", f"choose from {', '.join(ALGORITHMS)}")
    if not table.user_claim:
        yield Problem(("jwt", "user_claim"), "it is empty", "name a claim, such as sub")
    if table.by_url and not is_safe_url(table.keys):
        yield Problem(("jwt", "keys"), "the URL is not https", "use https://…, or http on this host")
