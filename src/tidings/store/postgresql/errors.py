"""Translates errors of PostgreSQL and of its client library into the store's errors."""

import psycopg

from tidings.errors import StoreError

# Errors of a connection attempt have no code, only the server's text.
REFUSED = (
    "authentication failed",
    "does not exist",
    "no pg_hba.conf entry",
    "permission denied",
    "no password",
    "not permitted to log in",
    "certificate",
)
CODES = {
    "53100": "E_STORE_FULL",  # disk full
    "53300": "E_STORE_UNAVAILABLE",  # too many connections
    "25006": "E_STORE_UNAVAILABLE",  # read-only transaction
    "42501": "E_STORE_ACCESS",  # insufficient privilege
    "42P01": "E_STORE_VERSION",  # no such table
    "42703": "E_STORE_VERSION",  # no such column
    "XX001": "E_STORE_DAMAGED",
    "XX002": "E_STORE_DAMAGED",
}
UNAVAILABLE = ("08", "57")  # connection lost; shutdown, starting up
REMEDIES = {
    "E_STORE_FULL": "; make room in the database",
    "E_STORE_ACCESS": "; check store.url, store.password_file and the rights of the user",
}


def store_error(error: psycopg.Error, place: str) -> StoreError:
    text = " ".join(str(error).split())
    code = _code(error, text)
    if error.sqlstate == "25006" or "session is read-only" in text:
        text = f"no writable server: {text}"
    return StoreError(code, f"{place}: {text}{REMEDIES.get(code, '')}")


def _code(error: psycopg.Error, text: str) -> str:
    if error.sqlstate:
        known = CODES.get(error.sqlstate)
        return known or ("E_STORE_UNAVAILABLE" if error.sqlstate[:2] in UNAVAILABLE else "E_STORE_IO")
    if isinstance(error, psycopg.OperationalError):
        refused = "connection to server" in text and any(part in text for part in REFUSED)
        starting = "starting up" in text or "shutting down" in text or "No such file" in text
        return "E_STORE_ACCESS" if refused and not starting else "E_STORE_UNAVAILABLE"
    return "E_STORE_IO"


def is_lost(error: psycopg.Error, db: "psycopg.Connection[tuple[object, ...]]") -> bool:
    """True if the connection is gone, so that the fate of a statement is open."""
    return db.broken or db.closed or (error.sqlstate is not None and error.sqlstate[:3] in ("57P", "080"))
