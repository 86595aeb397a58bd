"""`tidings` without its start-up, for tests with many commands: a process that has loaded all of them forks for each.

`python -m hardening.support.warm_commands SOCKET` is that process. The file `tidings` that `warm_commands` writes hands
it its arguments, directory, environment and open files, passes signals on, and ends with the command's status.
"""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

_COMMAND = """#!{python} -IS
import json, os, signal, socket, sys

server = socket.socket(socket.AF_UNIX)
server.connect({socket!r})
asked = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode() + b"\\n"
socket.send_fds(server, [asked], [0, 1, 2])
answers = server.makefile()
process = int(answers.readline())
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda number, _: os.kill(process, number))
status = int(answers.readline())
sys.exit(status if status >= 0 else 128 - status)
"""


@contextmanager
def warm_commands(folder: Path) -> Iterator[Path]:
    """A folder for PATH with a `tidings` in it."""
    folder.mkdir(parents=True, exist_ok=True)
    address, command = folder / "socket", folder / "tidings"
    command.write_text(_COMMAND.format(python=sys.executable, socket=str(address)))
    command.chmod(0o755)
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # a fork takes no threads along
    start = [sys.executable, "-m", "hardening.support.warm_commands", str(address)]
    with subprocess.Popen(start, stdout=subprocess.PIPE, text=True, env=environment) as server:
        try:
            assert server.stdout is not None
            assert server.stdout.readline() == "ready\n"
            yield folder
        finally:
            server.kill()


def serve(address: str) -> None:
    """Serves commands for ever; returns only in a child that has run its command, which then ends like any program."""
    command_line = import_module("tidings.cli")  # it is run, as by broker_process, not built upon
    command_line.make_app()  # loads every command
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children that end are reaped by the system
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(64)
        os.write(sys.stdout.fileno(), b"ready\n")
        while True:
            caller, _ = listener.accept()
            if os.fork() == 0:
                break
            caller.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    text = b""
    files: list[int] = []
    while not text.endswith(b"\n"):
        more, received, _, _ = socket.recv_fds(caller, 1 << 20, 3)
        text += more
        files += received
    worker = os.fork()
    if worker:
        caller.sendall(f"{worker}\n".encode())
        _, status = os.waitpid(worker, 0)
        caller.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
        os._exit(0)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    caller.close()
    arguments, directory, environment = json.loads(text)
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["tidings", *arguments]
    command_line.main()


if __name__ == "__main__":
    serve(sys.argv[1])
