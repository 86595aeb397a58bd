"""Access to a database: its address, whose messages are kept there, and what is required of it."""

from dataclasses import dataclass
from pathlib import Path

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tidings.errors import StoreError

# libpq's own defaults wait for minutes on a machine that is gone.
DEFAULTS: dict[str, str | int] = {
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
    "target_session_attrs": "read-write",
}


@dataclass(frozen=True, slots=True)
class DatabaseOptions:
    url: str
    broker: int  # whose messages these are
    password_file: str = ""
    require_synchronous: bool = False
    lease_ms: float = 3000.0  # without a sign of life, before another process may take the lease
    cut_off_ms: float = 0.0  # without a sign of life, before the holder takes its lease for lost; 0: never
    wait_ms: float = 10_000.0  # for a database that is gone, before messages are refused
    quota_bytes: int = 0  # of messages that wait; 0: no limit

    @property
    def place(self) -> str:
        """The database as errors name it: without user and password."""
        try:
            parts = conninfo_to_dict(self.url)
        except ProgrammingError:
            return "the database"
        hosts, ports = str(parts.get("host") or "").split(","), str(parts.get("port") or "").split(",")
        ports += [ports[-1]] * (len(hosts) - len(ports))
        named = ",".join(host + (f":{port}" if port else "") for host, port in zip(hosts, ports, strict=False))
        return f"postgresql://{named}/{parts.get('dbname') or ''}"

    def conninfo(self, purpose: str) -> str:
        try:
            given = conninfo_to_dict(self.url)
        except ProgrammingError as error:
            raise StoreError(
                "E_STORE_ACCESS", f"store.url is no connection string: {' '.join(str(error).split())}"
            ) from None
        own = {key: value for key, value in DEFAULTS.items() if key not in given}
        own["application_name"] = f"tidings broker {self.broker} {purpose}"
        if self.password_file:
            own["password"] = self._password()
        return make_conninfo(self.url, **own)

    def _password(self) -> str:
        try:
            return Path(self.password_file).read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise StoreError("E_STORE_ACCESS", f"{self.password_file} cannot be read: {error}") from None
