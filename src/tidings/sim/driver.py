"""Runs machines in virtual time: brings them their inputs and carries out their effects.

A machine has two doors, `start(now)` and `step(now, input)`, both of which return effects. The driver does `Dial`,
`Transmit`, `Close`, `SetTimer` and `Authenticate` (everyone is who he says); every other effect goes to
`observe(process, effect)`, for checkers and tables. Messages cross the network as bytes, so what is simulated
includes the codec and knows sizes. Each process may have a clock of its own, ahead by `skew_ms`. A process that is
started again is a new machine with the next incarnation; what was meant for the old one never reaches it.
"""

from collections import deque
from collections.abc import Callable, Iterable
from math import ulp
from typing import Any, Protocol, TypeAlias, assert_never

from tidings.errors import CodecError, UsageError
from tidings.overlay import effects as fx
from tidings.overlay.topology.graph import Node
from tidings.routing.control.codec import decode, encode
from tidings.sim.calendar import Calendar
from tidings.sim.network import PhysicalNetwork
from tidings.sim.streams import End, Streams

DriverEffect: TypeAlias = fx.Transmit | fx.SetTimer | fx.Dial | fx.CloseLink | fx.Authenticate
# Told of everything that happens: when, at which address, and a text, an input or an effect.
Trace: TypeAlias = Callable[[float, str, object], None]


class DrivenMachine(Protocol):
    def start(self, now: float) -> Iterable[Any]: ...

    def step(self, now: float, told: fx.Input, /) -> Iterable[Any]: ...


class SimulatedProcess:
    """A machine on a host, under an address. `machine` is None while it is not running."""

    def __init__(self, address: str, host: Node, make: Callable[[int], DrivenMachine], skew_ms: float) -> None:
        self.address, self.host, self.make, self.skew_ms = address, host, make, skew_ms
        self.machine: DrivenMachine | None = None
        self.incarnation = 0
        self.ends: dict[str, End] = {}
        self.timers: dict[str, float] = {}
        self.waiting: deque[Callable[[], None]] = deque()  # inputs, where machines take time
        self.busy = False
        self.frozen: deque[Callable[[], None]] | None = None  # what came since it was stopped; None: it runs


class Driver:
    def __init__(
        self,
        network: PhysicalNetwork,
        observe: Callable[[SimulatedProcess, Any], None] | None = None,
        trace: Trace | None = None,
        encode: Callable[[Any], bytes] = encode,
        decode: Callable[[bytes], Any] = decode,
        service: Callable[[Any], float] | None = None,
    ) -> None:
        """`service(machine)`: for how many ms a machine was busy with its last input; what comes meanwhile waits."""
        self.network = network
        self.calendar: Calendar = network.calendar
        self.processes: dict[str, SimulatedProcess] = {}
        self.messages_sent = 0
        self.bytes_sent = 0
        self._observe = observe
        self._encode, self._decode = encode, decode
        self._trace, self._service = trace, service
        self._streams = Streams(network, self._connected, self._received, self._lost)
        self._accepted = 0

    def add(
        self, address: str, host: Node, make: Callable[[int], DrivenMachine], skew_ms: float = 0.0
    ) -> SimulatedProcess:
        """A process that is not running yet; `make(incarnation)` makes its machine each time it starts."""
        if address in self.processes:
            raise UsageError("E_SIM_ADDRESS", f"address {address} is taken")
        process = self.processes[address] = SimulatedProcess(address, host, make, skew_ms)
        return process

    def start(self, address: str) -> None:
        process = self.processes[address]
        if process.machine is not None:
            raise UsageError("E_SIM_STATE", f"{address} is running")
        process.incarnation += 1
        process.machine = process.make(process.incarnation)
        self._note(process, f"starts as incarnation {process.incarnation}")
        self._carry_out(process, process.machine.start(self.calendar.now + process.skew_ms))

    def crash(self, address: str) -> None:
        """The process dies without a word. Its host, if that is up, resets its connections."""
        process = self.processes[address]
        if process.machine is None:
            raise UsageError("E_SIM_STATE", f"{address} is not running")
        self._note(process, "crashes")
        process.machine = None
        process.timers.clear()
        process.waiting.clear()
        process.busy, process.frozen = False, None
        ends, process.ends = process.ends, {}
        for end in ends.values():
            self._streams.abandon(end)

    def running(self) -> list[SimulatedProcess]:
        return [process for process in self.processes.values() if process.machine is not None]

    def freeze(self, address: str) -> None:
        """The process is stopped, as by SIGSTOP: it takes no input until `thaw`; what comes waits."""
        process = self.processes[address]
        if process.machine is not None and process.frozen is None:
            self._note(process, "is stopped")
            process.frozen = deque()

    def thaw(self, address: str) -> None:
        process = self.processes[address]
        if process.frozen is not None:
            self._note(process, "goes on")
            waiting, process.frozen = process.frozen, None
            incarnation = process.incarnation
            for work in waiting:
                if process.machine is not None and process.incarnation == incarnation:
                    work()

    def tell(self, process: SimulatedProcess, told: fx.Input) -> None:
        """One input into the machine, and its effects out of it."""
        if process.frozen is not None:
            process.frozen.append(lambda: self.tell(process, told))
            return
        assert process.machine is not None
        self._carry_out(process, process.machine.step(self.calendar.now + process.skew_ms, told))

    def call(self, address: str, action: Callable[[Any, float], Iterable[Any]]) -> None:
        """Something from outside, such as a client: `action(machine, now)` gives effects. Nothing if it is down."""
        process = self.processes[address]
        if process.machine is not None:
            self._input(process, lambda: self._act(process, action))

    def _act(self, process: SimulatedProcess, action: Callable[[Any, float], Iterable[Any]]) -> None:
        if process.frozen is not None:
            process.frozen.append(lambda: self._act(process, action))
            return
        self._carry_out(process, action(process.machine, self.calendar.now + process.skew_ms))

    def _input(self, process: SimulatedProcess, work: Callable[[], None]) -> None:
        """Now or, if the machine is busy, when its turn comes."""
        if self._service is None:
            work()
            return
        process.waiting.append(work)
        if not process.busy:
            self._serve(process, process.incarnation)

    def _serve(self, process: SimulatedProcess, incarnation: int) -> None:
        if process.machine is None or process.incarnation != incarnation:
            return
        process.busy = bool(process.waiting)
        if process.waiting:
            process.waiting.popleft()()
            assert self._service is not None
            self.calendar.after(self._service(process.machine), self._serve, process, incarnation)

    def _carry_out(self, process: SimulatedProcess, effects: Iterable[Any]) -> None:
        for effect in effects:
            if isinstance(effect, DriverEffect):
                self._perform(process, effect)
            else:
                self._note(process, effect)
                if self._observe is not None:
                    self._observe(process, effect)

    def _perform(self, process: SimulatedProcess, effect: DriverEffect) -> None:
        match effect:
            case fx.Transmit():
                self._transmit(process, effect)
            case fx.SetTimer(name=name, at=at):
                self._set_timer(process, name, at)
            case fx.Dial():
                self._dial(process, effect)
            case fx.CloseLink(connection=connection, reason=reason):
                end = process.ends.pop(connection, None)
                if end is not None:
                    self._note(process, f"closes {connection}: {reason}")
                    self._streams.close(end, reason)
            case fx.Authenticate(connection=connection):
                self.calendar.after(0.0, self._authenticated, process, process.incarnation, connection)
            case _:
                assert_never(effect)

    def _set_timer(self, process: SimulatedProcess, name: str, at: float) -> None:
        rings = max(at - process.skew_ms, self.calendar.now)
        if rings + process.skew_ms < at:  # rounded down: a timer that rings early would be set again for ever
            rings += ulp(at)
        process.timers[name] = rings
        self.calendar.at(rings, self._ring, process, process.incarnation, name, rings)

    def _transmit(self, process: SimulatedProcess, effect: fx.Transmit) -> None:
        end = process.ends.get(effect.connection)
        if end is None:
            return  # closed by the same batch of effects
        data = self._encode(effect.message)
        self.messages_sent += 1
        self.bytes_sent += len(data)
        self._streams.send(end, data)

    def _dial(self, process: SimulatedProcess, effect: fx.Dial) -> None:
        target = self.processes[effect.address]
        end = End(process.host, effect.connection, (process, process.incarnation))
        process.ends[effect.connection] = end
        self._note(process, f"dials {effect.address}")

        def accept() -> End | None:
            if target.machine is None:
                return None
            self._accepted += 1
            name = f"from:{process.address}/{self._accepted}"
            peer = target.ends[name] = End(target.host, name, (target, target.incarnation))
            return peer

        self._streams.dial(end, target.host, accept)

    # What the network says.

    def _alive(self, end: End) -> SimulatedProcess | None:
        """The process of an end, unless it ended or was restarted since."""
        owner = end.owner
        assert isinstance(owner, tuple)
        process, incarnation = owner
        assert isinstance(process, SimulatedProcess)
        return process if process.machine is not None and process.incarnation == incarnation else None

    def _connected(self, end: End) -> None:
        process = self._alive(end)
        if process is not None:
            accepted = end.name.startswith("from:")
            self.tell(process, fx.LinkAccepted(end.name) if accepted else fx.Connected(end.name))

    def _received(self, end: End, data: bytes) -> None:
        process = self._alive(end)
        if process is None:
            return
        try:
            message = self._decode(data)
        except CodecError as error:
            self._streams.close(end, error.code)
            self._lost(end, str(error))
            return
        told = fx.Received(end.name, message)
        self._note(process, told)
        self._input(process, lambda: self.tell(process, told))

    def _lost(self, end: End, reason: str) -> None:
        process = self._alive(end)
        if process is not None and end.name in process.ends:
            del process.ends[end.name]
            self._note(process, f"loses {end.name}: {reason}")
            self.tell(process, fx.Lost(end.name, reason, end.refused))

    def _ring(self, process: SimulatedProcess, incarnation: int, name: str, at: float) -> None:
        if process.machine is not None and process.incarnation == incarnation and process.timers.get(name) == at:
            del process.timers[name]
            self.tell(process, fx.Timer(name))

    def _authenticated(self, process: SimulatedProcess, incarnation: int, connection: str) -> None:
        if process.machine is not None and process.incarnation == incarnation and connection in process.ends:
            self.tell(process, fx.Authenticated(connection))

    def _note(self, process: SimulatedProcess, what: object) -> None:
        if self._trace is not None:
            self._trace(self.calendar.now, process.address, what)
