"""Publish a message, subscribe with a selector, and see what comes; the selector is checked while it is written."""

import json
from collections import deque
from typing import Any
from urllib.parse import urlencode

from nicegui import background_tasks, ui

from tidings.client import Client
from tidings.client.delivery import Delivery
from tidings.console.layout import Pane
from tidings.console.panes.queues import message_facts
from tidings.console.sessions import ConsoleSession
from tidings.console.widgets.broker_choice import BrokerChoice
from tidings.console.widgets.parts import Toggle, body_text, card, empty, facts, tell
from tidings.console.widgets.selector_field import SelectorInput
from tidings.errors import TidingsError, UsageError

KEPT = 50  # of the messages that came


class PlaygroundPane:
    def __init__(self, session: ConsoleSession) -> None:
        self._choice = BrokerChoice(session)
        self._client: Client | None = None
        self._busy = False  # subscribing, or ending it
        self._came: deque[Delivery] = deque(maxlen=KEPT)
        self._count, self._shown = 0, -1
        self._page = ui.context.client
        with ui.element("div").classes("t-row").style("max-width: 420px"):
            self._choice.select(self._stop)
        with ui.element("div").classes("t-columns even"):
            with card("Subscribe"):
                self._pattern = ui.input("Destination", value="ticks.>").props("outlined dense")
                self._selector = SelectorInput()
                with ui.element("div").classes("t-row"):
                    self._button = Toggle("Subscribe", "play_arrow", self._clicked)
                    self._status = ui.label().classes("t-faint").props("role=status")
            with card("Publish"):
                self._publish_form()
        with card("What came"):
            self._list = ui.column().classes("w-full gap-2").props("aria-live=polite")
        ui.timer(0.5, self._show)
        self._page.on_delete(self._stop)

    def _publish_form(self) -> None:
        self._destination = ui.input("Destination", value="ticks.xyz").props("outlined dense")
        text = '{"stock": "XYZ", "price": 50}'
        self._properties = ui.textarea("Properties, as JSON", value=text).props("outlined dense autogrow")
        self._body = ui.textarea("Body").props("outlined dense autogrow")
        with ui.element("div").classes("t-row"):
            self._persistent = ui.switch("Persistent")
            ui.button("Publish", icon="send", on_click=self._publish).props("no-caps")
        self._receipt = ui.element("div").classes("t-row").props("role=status")

    async def _publish(self) -> None:
        try:
            properties = properties_of(self._properties.value)
            source = self._choice.source
            client = await source.client()
            receipt = await client.publish(
                self._destination.value,
                properties,
                self._body.value.encode(),
                persistent=self._persistent.value,
                wait=True,
            )
        except (TidingsError, OSError) as error:
            tell(error)
            return
        self._receipt.clear()
        with self._receipt:
            ui.label("Published as")
            ui.label(str(receipt.message_id)).classes("t-code")
            ui.link("Trace it", f"/trace?{urlencode({'id': receipt.message_id, 'broker': source.url})}")

    # --- what comes -------------------------------------------------------------------------------------------------

    async def _clicked(self, begin: bool) -> None:
        if self._busy or begin == (self._client is not None):  # it was clicked twice
            return
        self._busy = True
        try:
            if not begin:
                await self._stop()
            elif self._selector.check():
                await self._subscribe()
        except (TidingsError, OSError) as error:
            if not self._page.is_deleted:
                tell(error)
        finally:
            self._busy = False

    async def _subscribe(self) -> None:
        source = self._choice.source
        client = await source.connect()
        try:
            subscription = await client.subscribe(
                self._pattern.value, selector=self._selector.text, policy="drop-oldest", window=KEPT
            )
        except BaseException:
            await client.close()
            raise
        if self._page.is_deleted or source is not self._choice.source:  # nobody is there any more to end it
            await client.close()
            return
        self._client = client
        self._came.clear()
        self._count, self._shown = 0, -1
        self._button.set(True)

        async def take() -> None:
            try:
                async for delivery in subscription:
                    self._came.appendleft(delivery)
                    self._count += 1
            except TidingsError as error:
                self._status.text = f"The subscription ended: {error.reason}"
            if self._client is client:
                await self._stop()

        background_tasks.create(take(), name="tidings try-out")

    async def _stop(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            self._button.set(False)
            await client.close()

    def _show(self) -> None:
        if self._count == self._shown:
            return
        self._shown = self._count
        if self._client is not None:
            self._status.text = f"{self._count} came"
        self._list.clear()
        with self._list:
            if not self._came:
                empty("Nothing yet. Subscribe, then publish something that the selector lets through.")
            for delivery in list(self._came):
                with ui.element("article").classes("t-message"):
                    facts(message_facts(delivery.message))
                    if delivery.body:
                        ui.label(body_text(delivery.body)).tag = "pre"


def properties_of(text: str) -> dict[str, Any]:
    """
    >>> properties_of('{"price": 50}')
    {'price': 50}
    """
    try:
        found = json.loads(text) if text.strip() else {}
    except json.JSONDecodeError as error:
        reason = f"the properties are not JSON: {error.msg}, line {error.lineno}, column {error.colno}"
        raise UsageError("E_PROPERTIES", reason, position=error.pos) from None
    except (ValueError, RecursionError):  # a number of thousands of digits, brackets within brackets within brackets
        reason = "the properties have a number that is too long, or are nested too deep"
        raise UsageError("E_PROPERTIES", reason) from None
    if not isinstance(found, dict) or any(not isinstance(value, (str, int, float, bool)) for value in found.values()):
        raise UsageError("E_PROPERTIES", 'properties are texts, numbers, true or false by name: {"price": 50}')
    return found


PANE = Pane("/try", "Try out", "science", "Publish and subscribe from here.", PlaygroundPane)
