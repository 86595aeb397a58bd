"""PostgreSQL servers for tests: clusters of their own in temporary folders, run by an unprivileged user."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import psycopg

FOUND = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
USER = "postgres"


def program(name: str) -> str:
    """The path of one of the server's programs, which Debian keeps out of PATH."""
    path = shutil.which(name) or next((str(folder / name) for folder in reversed(FOUND)), "")
    assert path, f"{name} is missing: run scripts/system-packages"
    return path


def _account() -> pwd.struct_passwd | None:
    """The user that runs the servers; None: the one that runs the tests, not root."""
    return None if os.geteuid() else pwd.getpwnam(USER)


class Cluster:
    """A server with its data in a folder, on a Unix socket and a port, by default of loopback.

    `within`: the beginning of a command that is run on its host, if that is a network namespace.
    """

    def __init__(self, folder: Path, port: int = 0, *, address: str = "127.0.0.1", within: Sequence[str] = ()) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.port = port or _free_port()
        self.address, self._within = address, list(within)
        self._process: subprocess.Popen[bytes] | None = None
        self._databases = 0
        account = _account()
        self._user = (None, None) if account is None else (account.pw_uid, account.pw_gid)

    def run(self, name: str, *arguments: str) -> None:
        user, group = self._user
        done = subprocess.run(
            [program(name), *arguments],
            cwd=self.folder,
            capture_output=True,
            text=True,
            user=user,
            group=group,
            extra_groups=None if user is None else [],
        )
        assert done.returncode == 0, f"{name}: {done.stdout}{done.stderr}"

    def make(self, settings: Mapping[str, object]) -> None:
        self.run("initdb", "--auth=trust", "--username", USER, "--encoding=UTF8", "--no-sync", "-D", str(self.data))
        self.configure(settings)

    def configure(self, settings: Mapping[str, object]) -> None:
        with (self.data / "postgresql.conf").open("a") as file:
            file.writelines(f"{key} = '{value}'\n" for key, value in settings.items())

    def follow(self, primary: "Cluster") -> None:
        """Make this a copy of a running server, which streams from it under the name `standby`."""
        source = f"host={primary.folder} port={primary.port} user={USER} application_name=standby"
        self.run("pg_basebackup", "-d", source, "-D", str(self.data), "-R", "--no-sync", "--checkpoint=fast")

    def promote(self) -> None:
        self.run("pg_ctl", "promote", "-D", str(self.data))

    def start(self) -> None:
        """Run the server; returns when it takes connections."""
        (self.data / "postmaster.pid").unlink(missing_ok=True)
        arguments = ["-D", str(self.data), "-k", str(self.folder), "-p", str(self.port)]
        log = (self.folder / "log").open("ab")
        user, group = self._user
        become: list[str] = []
        if self._within and user is not None:  # entering a namespace takes root
            become, user, group = ["setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups"], None, None
        self._process = subprocess.Popen(
            [*self._within, *become, program("postgres"), *arguments, "-c", f"listen_addresses={self.address}"],
            stdout=log,
            stderr=log,
            start_new_session=True,
            user=user,
            group=group,
            extra_groups=None if user is None else [],
        )
        log.close()
        self.wait()

    def wait(self) -> None:
        deadline = time.monotonic() + 60
        while True:
            try:
                psycopg.connect(self.url("postgres")).close()
                return
            except psycopg.OperationalError:
                assert time.monotonic() < deadline, (self.folder / "log").read_text()[-2000:]
                time.sleep(0.02)

    def signal(self, number: signal.Signals) -> None:
        """To the server and all its processes."""
        assert self._process is not None
        os.killpg(self._process.pid, number)
        if number is not signal.SIGKILL:
            for pid in self.processes():
                os.kill(pid, number)

    def processes(self) -> list[int]:
        """The server's own processes: each is the leader of a group."""
        assert self._process is not None
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text()
        return [int(pid) for pid in children.split()]

    def kill(self) -> None:
        """As a power failure would: all processes at once."""
        assert self._process is not None
        children = self.processes()
        self._process.kill()
        for pid in children:
            with _gone():
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        self._process = None

    def remove(self) -> None:
        """Its data; it must not run."""
        shutil.rmtree(self.data)

    def discard(self) -> None:
        """End it, if it runs, without a last checkpoint of what nobody needs."""
        if self._process is not None:
            self.kill()

    def stop(self) -> None:
        """Quickly, ending all sessions."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(60)
            self._process = None

    def url(self, database: str, user: str = USER) -> str:
        return f"postgresql://{user}@/{database}?host={self.folder}&port={self.port}"

    def database(self) -> str:
        """The address of a new, empty database."""
        self._databases += 1
        name = f"test{self._databases}"
        self.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    def execute(self, statement: str, database: str = "postgres") -> list[tuple[object, ...]]:
        with psycopg.connect(self.url(database), autocommit=True) as db:
            cursor = db.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []


@contextmanager
def _gone() -> Iterator[None]:
    try:
        yield
    except ProcessLookupError:
        return


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        assert isinstance(port, int)
        return port


QUICK = {"fsync": "off", "shared_buffers": "16MB", "max_connections": "60", "autovacuum_naptime": "1min"}


@contextmanager
def pair() -> Iterator[tuple[Cluster, Cluster]]:
    """A primary and a standby that has each commit before it is acknowledged."""
    with cluster() as primary, folder_of_server() as folder:
        standby = Cluster(folder)
        standby.follow(primary)
        try:
            standby.start()
            primary.configure({"synchronous_standby_names": "standby"})
            primary.execute("SELECT pg_reload_conf()")
            yield primary, standby
        finally:
            standby.discard()


@contextmanager
def folder_of_server() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="tidings-pg-"))
    account = _account()
    if account is not None:
        os.chown(folder, account.pw_uid, account.pw_gid)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def cluster(settings: Mapping[str, object] = QUICK) -> Iterator[Cluster]:
    """A running server, removed afterwards. By default its disk is not waited for."""
    with folder_of_server() as folder:
        server = Cluster(folder)
        try:
            server.make(settings)
            server.start()
            yield server
        finally:
            server.discard()
