"""Queues and kept subscriptions with their depths; look into a queue, move what waits in it, or purge it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from nicegui import ui

from tidings.client.queue import Browsed, Queue
from tidings.console.layout import Pane
from tidings.console.sessions import ConsoleSession
from tidings.console.source import Source
from tidings.console.widgets.broker_choice import BrokerChoice
from tidings.console.widgets.charts import LineChart
from tidings.console.widgets.paged_list import PagedList
from tidings.console.widgets.parts import (
    ConfirmQuestion,
    body_text,
    card,
    count_text,
    empty,
    facts,
    faint,
    heading,
    label_of,
    policy_text,
    problem,
    reason_of,
    table,
    tell,
    unseen,
)
from tidings.errors import TidingsError
from tidings.model.message import Message

SHOWN = 25  # messages of a queue
PROPERTIES_SHOWN = 8  # of a message; all of them are a click away
_LINES = {"waiting": "#2f8fc4", "unacknowledged": "#d58a12", "given out a second": "#4a9d6f"}
_KINDS = {
    "queue": "queue",
    "durable": "durable",
    "shared": "shared",
    "shared-durable": "shared, durable",
    "retained": "retained",
    "private": "private",
    "temporary": "temporary queue",
}


@dataclass(frozen=True, slots=True)
class QueuePlace:
    """A queue at a broker. What is done to messages is done where they were read, whatever has been chosen since."""

    source: Source
    name: str  # empty: none yet

    async def queue(self) -> Queue:
        return (await self.source.client()).queue(self.name)


class QueuesPane:
    def __init__(self, session: ConsoleSession) -> None:
        self._session, self._choice = session, BrokerChoice(session)
        self._place = QueuePlace(self._choice.source, "")
        with ui.element("div").classes("t-columns even"):
            with ui.element("div").classes("t-columns"):
                with card("Queues and kept subscriptions", "Most messages first. Choose a queue to look into it."):
                    columns = {
                        "name": "Name",
                        "kind": "Kind",
                        "waiting": "Waiting",
                        "unacknowledged": "Unacknowledged",
                        "consumers": "Consumers",
                        "home": "Kept by",
                    }
                    self._list = PagedList(
                        self._choice,
                        "mailboxes",
                        columns,
                        _row,
                        key="name",
                        label="Queues",
                        numbers=("waiting", "unacknowledged", "consumers"),
                        roomy=("kind", "unacknowledged", "home"),
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
        self._sure = ConfirmQuestion("Delete all", "Keep it")
        self._chart: LineChart | None = None  # of the queue that is looked into
        self._list.broker.on_value_change(self._begin)
        self._list.broker.on_value_change(self._show_topics)
        ui.timer(2.0, self._show_topics)
        ui.timer(5.0, self._draw)
        ui.timer(0.1, self._begin, once=True)

    async def _begin(self) -> None:
        """Dead letters first: whoever comes here mostly comes for them."""
        self._inside.clear()  # at once: what is there belongs to the broker before
        source = self._choice.source
        await self._look(QueuePlace(source, self._dead_letters(source)))

    def _dead_letters(self, source: Source) -> str:
        """The queue of a broker's dead letters, which there is from the first of them on."""
        broker = self._session.watch.view.watched.get(source.url)
        return str(broker.overview.get("dead_letters", "")) if broker else ""

    async def _pick(self, item: dict[str, Any]) -> None:
        if item["kind"] == "queue":
            await self._look(QueuePlace(self._choice.source, item["name"]))
        else:
            ui.notify("Only queues can be looked into.", position="top")

    async def _look(self, place: QueuePlace) -> None:
        self._place = place
        found: list[Browsed] = []
        missing, item = "", None
        if not place.name:  # the broker has not said where dead letters go: nothing is chosen yet
            self._inside.clear()
            with self._inside:
                why = unseen(self._session.watch, place.source.url)
                problem(why) if why else empty("Choose a queue to look into it.")
            return
        try:
            waiting = (await place.queue()).browse(page=SHOWN)
            async for one in waiting:
                found.append(one)
                if len(found) >= SHOWN:
                    break
            await waiting.aclose()  # type: ignore[attr-defined]  # it is a generator
            item = await _item(place)
        except (TidingsError, OSError) as error:
            missing = why_unseen(error, place.name, self._dead_letters(place.source))
        if place is self._place:  # and not another, which was chosen meanwhile
            self._tell(place, found, missing, item)

    def _tell(self, place: QueuePlace, found: list[Browsed], missing: str, item: dict[str, Any] | None) -> None:
        self._inside.clear()
        self._chart = None
        with self._inside:
            heading(place.name)
            if self._choice.of_several:
                faint(f"At {self._broker(place)}.")
            if missing:
                problem(missing)
                return
            if item is not None:
                facts(_state(item))
                self._chart = LineChart(_LINES, f"{place.name} over the last hour")
                self._draw()
            if item is not None or found:
                self._actions(place, nothing=not found)
            if not found:
                empty("Nothing waits here.")
            else:
                for one in found:
                    self._message(place, one)
                if len(found) == SHOWN:
                    faint(f"The first {SHOWN} are shown.")

    def _broker(self, place: QueuePlace) -> str:
        return label_of(self._session.watch, place.source.url)

    def _draw(self) -> None:
        if self._chart is None:
            return
        moments = self._session.watch.queues.of(self._place.source.url, self._place.name)
        times = [datetime.fromtimestamp(one.at, UTC).astimezone().strftime("%H:%M:%S") for one in moments]
        self._chart.show(times, [(one.waiting, one.unacknowledged, one.given_s) for one in moments])

    def _actions(self, place: QueuePlace, *, nothing: bool) -> None:
        with ui.element("div").classes("t-row"):
            delete = ui.button("Delete queue …", on_click=lambda: self._ask_delete(place))
            delete.props("outline no-caps color=negative")
            if nothing:
                return
            target = ui.input("Move to queue", value="queue:").props("outlined dense")
            move = ui.button("Move all", on_click=lambda: self._move(place, target.value, None))
            move.props("outline no-caps")
            purge = ui.button("Purge …", on_click=lambda: self._ask_purge(place))
            purge.props("outline no-caps color=negative")

    def _message(self, place: QueuePlace, one: Browsed) -> None:
        message = one.message
        with ui.element("article").classes("t-message").props(f'aria-label="Message {one.tag}"'):
            facts(message_facts(message) | ({"Tries": one.attempt - 1} if one.attempt > 1 else {}))
            with ui.element("details"):
                summary = ui.label("Other headers and properties")
                summary.tag = "summary"
                facts(other_headers(message))
                facts(dict(islice(message.properties.items(), PROPERTIES_SHOWN, None)))
            if message.body:
                body = ui.label(body_text(message.body))
                body.tag = "pre"
            with ui.element("div").classes("t-row q-mt-sm"):
                where = ui.input("To", value=str(message.properties.get("JMSXOriginalDestination", "queue:")))
                where.props("outlined dense")
                move = ui.button("Move", on_click=lambda: self._move(place, where.value, (one.tag,)))
                move.props("flat dense no-caps")
                purge = ui.button("Delete", on_click=lambda: self._purge(place, (one.tag,)))
                purge.props("flat dense no-caps color=negative")

    def _ask_delete(self, place: QueuePlace) -> None:
        where = f" at {self._broker(place)}" if self._choice.of_several else ""
        text = f"Delete {place.name}{where}, with its messages, and close the connections of its consumers?"
        self._sure.ask(
            text, lambda: self._act(place, lambda queue: queue.delete(force=True), "messages deleted, and the queue")
        )

    async def _move(self, place: QueuePlace, target: str, tags: tuple[int, ...] | None) -> None:
        await self._act(place, lambda queue: queue.move(target, tags=tags), f"moved to {target}")

    def _ask_purge(self, place: QueuePlace) -> None:
        where = f" at {self._broker(place)}" if self._choice.of_several else ""
        self._sure.ask(f"Delete everything that waits in {place.name}{where}?", lambda: self._purge(place, None))

    async def _purge(self, place: QueuePlace, tags: tuple[int, ...] | None) -> None:
        await self._act(place, lambda queue: queue.purge(tags=tags), "deleted")

    async def _act(self, place: QueuePlace, act: Callable[[Queue], Awaitable[int]], done: str) -> None:
        try:
            count = await act(await place.queue())
        except (TidingsError, OSError) as error:
            with self._inside:  # the button may have gone meanwhile
                tell(error)
            return
        with self._inside:
            ui.notify(f"{count} {done}", position="top")
        await self._list.show()
        await self._look(self._place)

    async def _show_topics(self) -> None:
        error, source = "", self._choice.source
        try:
            found = (await source.inspect("destinations", count=SHOWN))["items"]
        except (TidingsError, OSError, TimeoutError) as caught:
            found, error = [], reason_of(caught)
        if source is not self._choice.source:
            return
        self._topics.rows = found
        self._topics.set_visibility(bool(found))
        self._nobody.set_visibility(not found and not error)
        self._untold.text = error
        self._untold.set_visibility(bool(error))


def why_unseen(error: Exception, queue: str, dead_letters: str) -> str:
    """The reason for which a queue cannot be browsed; empty: it is that of the dead letters, and none has come yet."""
    if not isinstance(error, TidingsError) or error.code != "E_QUEUE_UNKNOWN":
        return reason_of(error)
    return "" if queue == dead_letters else "There is no such queue."


def message_facts(message: Message) -> dict[str, object]:
    """Formats the header fields and properties of a message."""
    properties = dict(islice(message.properties.items(), PROPERTIES_SHOWN))
    found: dict[str, object] = {"Destination": str(message.destination), "Id": str(message.id)}
    return found | {f"{name}": value for name, value in properties.items()}


def other_headers(message: Message) -> dict[str, object]:
    """The header fields that are set, besides destination and id."""
    fields: dict[str, object] = {
        "Persistent": "yes" if message.persistent else "no",
        "Priority": message.priority,
        "Time": _time(message.timestamp_ms),
        "Expires": _time(message.expiration_ms),
        "Delivered from": _time(message.deliver_at_ms),
        "Correlation id": message.correlation_id,
        "Reply to": message.reply_to,
        "Type": message.type,
        "Body": f"{len(message.body)} bytes",
    }
    return {name: value for name, value in fields.items() if value is not None}


def _time(ms: int | None) -> str | None:
    if ms is None:
        return None
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).astimezone().isoformat(sep=" ", timespec="milliseconds")
    except (ValueError, OverflowError, OSError):  # a year that calendars do not have
        return f"{ms} ms since 1970"


async def _item(place: QueuePlace) -> dict[str, Any] | None:
    """The broker's entry for the queue."""
    found = (await place.source.inspect("mailboxes", containing=place.name))["items"]
    return next((one for one in found if one["name"] == place.name), None)


def _state(item: dict[str, Any]) -> dict[str, object]:
    state: dict[str, object] = {
        "Waiting": item["waiting"],
        "Unacknowledged": item["unacknowledged"],
        "Given out": count_text(item["given"]),
        "Consumers": item["consumers"],
        "Policy": "none" if item["policy"] is None else policy_text(item["policy"]),
    }
    return state | ({"Dropped": item["dropped"]} if item["dropped"] else {})


def _row(item: dict[str, Any]) -> dict[str, Any]:
    return {
        "kind": _KINDS.get(item["kind"], item["kind"]),
        "waiting": count_text(item["waiting"]),
        "unacknowledged": count_text(item["unacknowledged"]),
        "consumers": item["consumers"],
        "home": f"broker {item['home']}" if item["home"] else "",
    }


PANE = Pane("/queues", "Queues", "inbox", "What waits, for whom, and the dead letters.", QueuesPane)
