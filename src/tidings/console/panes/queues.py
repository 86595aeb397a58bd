"""Queues and kept subscriptions with their depths; look into a queue, move what waits in it, or purge it."""

from itertools import islice
from typing import Any

from nicegui import ui

from tidings.client.queue import Browsed
from tidings.console.frame import Pane
from tidings.console.listing import Listing
from tidings.console.parts import (
    body_text,
    card,
    chosen_source,
    chosen_url,
    count_text,
    empty,
    facts,
    faint,
    heading,
    problem,
    reason_of,
    table,
    tell,
    unseen,
)
from tidings.console.sessions import Session
from tidings.errors import TidingsError
from tidings.model.message import Message

SHOWN = 25  # messages of a queue
_KINDS = {
    "queue": "queue",
    "durable": "durable",
    "shared": "shared",
    "shared-durable": "shared, durable",
    "retained": "retained",
    "private": "private",
    "temporary": "temporary queue",
}


class QueuesPane:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._queue = ""
        with ui.element("div").classes("t-columns even"):
            with ui.element("div").classes("t-columns"):
                with card("Queues and kept subscriptions", "Most messages first. Choose a queue to look into it."):
                    columns = {
                        "name": "Name",
                        "kind": "Kind",
                        "waiting": "Waiting",
                        "out": "Given out",
                        "consumers": "Consumers",
                    }
                    self._list = Listing(
                        session,
                        "mailboxes",
                        columns,
                        _row,
                        key="name",
                        label="Queues",
                        numbers=("waiting", "out", "consumers"),
                        roomy=("kind", "out"),
                        nothing="No queue yet. The first message to queue:orders makes one of that name.",
                        on_pick=self._pick,
                    )
                with card("What is subscribed to", "Topic patterns and queues, those with most subscriptions first."):
                    self._topics = table(
                        {"destination": "Destination", "subscriptions": "Subscriptions"},
                        key="destination",
                        numbers=("subscriptions",),
                        label="Destinations",
                    )
                    self._nobody = empty("Nobody has subscribed to anything.")
                    self._untold = problem("")
                    self._untold.set_visibility(False)
            with card("Messages"):
                self._inside = ui.column().classes("w-full gap-3")
        ui.timer(2.0, self._show_topics)
        ui.timer(0.1, self._begin, once=True)

    async def _begin(self) -> None:
        """Dead letters first: whoever comes here mostly comes for them."""
        self._queue = self._dead_letters()
        await self._look()

    def _dead_letters(self) -> str:
        """The queue of the chosen broker's dead letters, which there is from the first of them on."""
        broker = self._session.watch.view.watched.get(chosen_url(self._session))
        return str(broker.overview.get("dead_letters", "")) if broker else ""

    async def _pick(self, item: dict[str, Any]) -> None:
        if item["kind"] == "queue":
            self._queue = item["name"]
            await self._look()
        else:
            ui.notify("Only queues can be looked into.", position="top")

    async def _look(self) -> None:
        found: list[Browsed] = []
        missing = ""
        if not self._queue:  # the broker has not said where dead letters go: nothing is chosen yet
            self._inside.clear()
            with self._inside:
                why = unseen(self._session.watch, chosen_url(self._session))
                problem(why) if why else empty("Choose a queue to look into it.")
            return
        try:
            client = await chosen_source(self._session).client()
            waiting = client.queue(self._queue).browse(page=SHOWN)
            async for one in waiting:
                found.append(one)
                if len(found) >= SHOWN:
                    break
            await waiting.aclose()  # type: ignore[attr-defined]  # it is a generator
        except (TidingsError, OSError) as error:
            missing = why_unseen(error, self._queue, self._dead_letters())
        self._inside.clear()
        with self._inside:
            if self._queue:
                heading(self._queue)
            if missing:
                problem(missing)
            elif not found:
                empty("Nothing waits here.")
            else:
                self._actions()
                for one in found:
                    self._message(one)
                if len(found) == SHOWN:
                    faint(f"The first {SHOWN} are shown.")

    def _actions(self) -> None:
        with ui.element("div").classes("t-row"):
            target = ui.input("Move to queue", value="queue:").props("outlined dense")
            ui.button("Move all", on_click=lambda: self._move(target.value, None)).props("outline no-caps")
            ui.button("Purge …", on_click=self._ask_purge).props("outline no-caps color=negative")

    def _message(self, one: Browsed) -> None:
        message = one.message
        with ui.element("article").classes("t-message").props(f'aria-label="Message {one.tag}"'):
            facts(message_facts(message) | ({"Tries": one.attempt - 1} if one.attempt > 1 else {}))
            if message.body:
                body = ui.label(body_text(message.body))
                body.tag = "pre"
            with ui.element("div").classes("t-row q-mt-sm"):
                where = ui.input("To", value=str(message.properties.get("JMSXOriginalDestination", "queue:")))
                where.props("outlined dense")
                move = ui.button("Move", on_click=lambda: self._move(where.value, (one.tag,)))
                move.props("flat dense no-caps")
                purge = ui.button("Delete", on_click=lambda: self._purge((one.tag,)))
                purge.props("flat dense no-caps color=negative")

    async def _move(self, target: str, tags: tuple[int, ...] | None) -> None:
        try:
            client = await chosen_source(self._session).client()
            count = await client.queue(self._queue).move(target, tags=tags)
        except (TidingsError, OSError) as error:
            tell(error)
            return
        ui.notify(f"{count} moved to {target}", position="top")
        await self._changed()

    async def _ask_purge(self) -> None:
        with ui.dialog() as dialog, ui.card():
            ui.label(f"Delete everything that waits in {self._queue}?").classes("text-weight-bold")
            ui.label("It cannot be brought back.")
            with ui.row().classes("w-full justify-end"):
                ui.button("Keep it", on_click=lambda: dialog.submit(False)).props("flat no-caps autofocus")
                ui.button("Delete all", on_click=lambda: dialog.submit(True)).props("no-caps color=negative")
        if await dialog:
            await self._purge(None)

    async def _purge(self, tags: tuple[int, ...] | None) -> None:
        try:
            client = await chosen_source(self._session).client()
            count = await client.queue(self._queue).purge(tags=tags)
        except (TidingsError, OSError) as error:
            tell(error)
            return
        ui.notify(f"{count} deleted", position="top")
        await self._changed()

    async def _changed(self) -> None:
        await self._list.show()
        await self._look()

    async def _show_topics(self) -> None:
        error = ""
        try:
            found = (await chosen_source(self._session).inspect("destinations", count=SHOWN))["items"]
        except (TidingsError, OSError, TimeoutError) as caught:
            found, error = [], reason_of(caught)
        self._topics.rows = found
        self._topics.set_visibility(bool(found))
        self._nobody.set_visibility(not found and not error)
        self._untold.text = error
        self._untold.set_visibility(bool(error))


def why_unseen(error: Exception, queue: str, dead_letters: str) -> str:
    """Why a queue cannot be looked into; empty: it is that of the dead letters, and none has come yet."""
    if not isinstance(error, TidingsError) or error.code != "E_QUEUE_UNKNOWN":
        return reason_of(error)
    return "" if queue == dead_letters else "There is no such queue."


def message_facts(message: Message) -> dict[str, object]:
    """What is worth reading of a message besides its body."""
    properties = dict(islice(message.properties.items(), 20))
    found: dict[str, object] = {"Destination": str(message.destination), "Id": str(message.id)}
    return found | {f"{name}": value for name, value in properties.items()}


def _row(item: dict[str, Any]) -> dict[str, Any]:
    return {
        "kind": _KINDS.get(item["kind"], item["kind"]),
        "waiting": count_text(item["waiting"]),
        "out": count_text(item["given"]),
        "consumers": item["consumers"],
    }


PANE = Pane("/queues", "Queues", "inbox", "What waits, for whom, and the dead letters.", QueuesPane)
