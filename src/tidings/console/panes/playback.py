"""Runs a small simulation, or reads one that was run, and plays it on the map."""

import asyncio
import threading
from collections.abc import Callable

from nicegui import ui

from tidings.console.layout import Pane
from tidings.console.playback import Film
from tidings.console.sessions import ConsoleSession
from tidings.console.widgets.network_map import NetworkMap
from tidings.console.widgets.parts import Toggle, card, empty, tell
from tidings.errors import TidingsError, UsageError
from tidings.sim.scenario import Scenario

RUN_MS_MAX, BROKERS_MAX = 120_000, 40
MESSAGES_MAX, FAULTS_MAX = 50_000, 10_000  # of one millisecond the simulator tells 65,536 messages apart
AROUND = 12  # lines shown before and after the present one
EXAMPLE = """\
scheme = "bdrp"
run_ms = 9000

[topology]
latency_ms = 5
links = [
  {between = ["paris", "oslo"]}, {between = ["oslo", "rome"]},
  {between = ["rome", "paris"]}, {between = ["rome", "kyiv"]},
]

[[subscribe]]
at = 500
broker = "rome"
selector = "price > 20"

[[publish]]
at = 2000
broker = "paris"
attributes = {price = 50}
count = 3
every_ms = 2000

[[fault]]
at = 3000
crash = "oslo"

[[fault]]
at = 6000
restart = "oslo"
"""


class PlaybackPane:
    def __init__(self, session: ConsoleSession) -> None:
        self._film: Film | None = None
        self._stop: threading.Event | None = None  # of the run that goes on
        self._at = 0
        with ui.element("div").classes("t-columns two"):
            with card("Film"):
                self._map = NetworkMap()
                self._controls()
                self._lines = ui.element("ol").classes("t-log").props('aria-label="What happens" tabindex=0')
            with card("Scenario", "What `tidings sim run` reads; or what it printed, to be played again."):
                self._text = ui.textarea("Scenario or transcript", value=EXAMPLE).props(
                    "outlined dense input-class=t-code"
                )
                self._text.props("rows=18")
                with ui.element("div").classes("t-row"):
                    self._seed = ui.number("Seed", value=1, min=0, step=1, format="%d").props("outlined dense")
                    self._run = Toggle("Run", "movie", self._clicked)
        self._timer = ui.timer(0.5, self._forward, active=False)
        self._page = ui.context.client
        self._page.on_delete(self._end_run)
        self._show()

    def _controls(self) -> None:
        with ui.element("div").classes("t-row"):
            back = ui.button(icon="skip_previous", on_click=lambda: self._go(self._at - 1))
            back.props('flat round dense aria-label="Step back"')
            self._play = ui.button(icon="play_arrow", on_click=self._toggle).props('round dense aria-label="Play"')
            on = ui.button(icon="skip_next", on_click=lambda: self._go(self._at + 1))
            on.props('flat round dense aria-label="Step forward"')
            self._slider = ui.slider(min=0, max=1, value=0, on_change=lambda event: self._go(int(event.value)))
            self._slider.props('aria-label="Step"').style("flex: 1 1 160px")
            self._where = ui.label().classes("t-faint").props("role=status")

    async def _clicked(self, begin: bool) -> None:
        if not begin:
            self._end_run()
        elif self._stop is None:  # it was not clicked twice
            await self._make()

    async def _make(self) -> None:
        self._stop = stop = threading.Event()
        self._run.set(True)
        try:
            text, seed = self._text.value, int(self._seed.value or 0)
            self._film = await asyncio.to_thread(film_of, text, seed, stop.is_set)
        except TidingsError as error:
            if not self._page.is_deleted:
                tell(error)
            return
        finally:
            stop.set()  # this is cancelled when the console ends; the thread is not, and would be waited for
            self._stop = None
            self._run.set(False)
        self._at = 0
        self._slider._props["max"] = len(self._film.steps) - 1
        self._slider.value = 0
        self._slider.update()
        self._show()

    def _end_run(self) -> None:
        if self._stop is not None:
            self._stop.set()

    def _toggle(self) -> None:
        if self._film is not None and self._at == len(self._film.steps) - 1:
            self._go(0)
        self._set_playing(not self._timer.active)

    def _set_playing(self, playing: bool) -> None:
        self._timer.active = playing and self._film is not None
        icon, name = ("pause", "Pause") if self._timer.active else ("play_arrow", "Play")
        self._play.props(f'icon={icon} aria-label="{name}"')

    def _forward(self) -> None:
        if self._film is not None and self._at + 1 < len(self._film.steps):
            self._go(self._at + 1)
        else:
            self._set_playing(False)

    def _go(self, index: int) -> None:
        if self._film is None:
            return
        index = min(max(index, 0), len(self._film.steps) - 1)
        if index != self._at:
            self._at = index
            self._slider.value = index
            self._show()

    def _show(self) -> None:
        self._lines.clear()
        film = self._film
        if film is None:
            with self._lines:
                empty("Run the scenario to see links come up, a broker crash, and routes recover.")
            return
        self._map.show(film.view(self._at), lit=film.lit(self._at))
        self._where.text = f"{film.steps[self._at].at_ms:.0f} ms · step {self._at + 1} of {len(film.steps)}"
        first = max(0, self._at - AROUND)
        widest = max(map(len, film.names.values()), default=1)
        with self._lines:
            for number, step in enumerate(film.steps[first : self._at + AROUND + 1], first):
                line = ui.label(f"{step.at_ms:9.1f} ms  {step.who:<{widest}}  {step.text}")
                line.tag = "li"
                if number == self._at:
                    line.classes("now").props("aria-current=step")


def film_of(text: str, seed: int, stopped: Callable[[], bool] = lambda: False) -> Film:
    """From a scenario, by running it until it ends or is `stopped`; from anything else, as a transcript."""
    if "[topology]" not in text:
        return Film.of_lines(text.splitlines())
    scenario = Scenario.from_toml(text)
    if scenario.run_ms > RUN_MS_MAX or len(scenario.names) > BROKERS_MAX:
        reason = f"at most {RUN_MS_MAX // 1000} s and {BROKERS_MAX} brokers here; `tidings sim run` takes more"
        raise UsageError("E_SCENARIO", reason)
    if scenario.message_count > MESSAGES_MAX or scenario.fault_count > FAULTS_MAX:
        reason = f"at most {MESSAGES_MAX:,} messages and {FAULTS_MAX:,} faults here; `tidings sim run` takes more"
        raise UsageError("E_SCENARIO", reason)
    return Film.of_lines(scenario.run(seed, stopped).lines)


PANE = Pane("/playback", "Simulator", "movie", "Networks in virtual time, played step by step.", PlaybackPane)
