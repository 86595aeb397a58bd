"""A TCP relay that loses requests or answers: what a client sends arrives or not, and it never hears which."""

import socket
import threading
from contextlib import suppress
from enum import Enum, auto
from random import Random


class Loss(Enum):
    """The fate of the next request that is longer than `FROM_BYTES`."""

    NONE = auto()
    REQUEST = auto()  # it does not arrive, and the connection is closed
    ANSWER = auto()  # it arrives, and the connection is closed before the answer
    LATE = auto()  # the client's connection is closed first, the request arrives afterwards


FROM_BYTES = 200
LATE_SECONDS = 0.05


class SeveredLine:
    def __init__(self, port: int) -> None:
        self._target = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.losses: list[Loss] = []  # of the next requests
        self.lost: list[Loss] = []
        self.closed = False
        self._ends: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self.closed = True
        self._listening.close()
        for end in self._ends:
            _close(end)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
                self._ends += [client, server]
                threading.Thread(target=self._up, args=(client, server), daemon=True).start()
                threading.Thread(target=self._down, args=(client, server), daemon=True).start()

    def _up(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := client.recv(1 << 20):
                loss = self.losses.pop(0) if self.losses and len(data) > FROM_BYTES else Loss.NONE
                if loss is Loss.NONE:
                    server.sendall(data)
                    continue
                self.lost.append(loss)
                if loss is not Loss.REQUEST:
                    _close(client)
                    if loss is Loss.LATE:
                        threading.Event().wait(LATE_SECONDS)
                    server.sendall(data)
                    server.shutdown(socket.SHUT_WR)
                    threading.Event().wait(LATE_SECONDS)
                break
        _close(client)
        _close(server)

    def _down(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(1 << 20):
                client.sendall(data)
        _close(client)


def _close(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()


def losses(rng: Random, count: int) -> list[Loss]:
    """A third of the requests is lost in one way or another."""
    kinds = [Loss.REQUEST, Loss.ANSWER, Loss.LATE]
    return [rng.choice(kinds) if rng.random() < 1 / 3 else Loss.NONE for _ in range(count)]
