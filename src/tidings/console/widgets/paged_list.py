"""A list that a broker gives out by pages: which broker, a text to look for, the rows, backwards and forwards."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nicegui import ui

from tidings.console.source import Source
from tidings.console.widgets.broker_choice import BrokerChoice
from tidings.console.widgets.parts import empty, every, problem, table
from tidings.errors import TidingsError

Row = dict[str, Any]
PAGE = 50
_BUTTON = """<q-td :props="props">
<q-btn flat dense no-caps align="left" color="primary" :label="props.value" :title="props.value"
  @click="$parent.$emit('pick', props.row)" />
</q-td>"""


class PagedList:
    """`row` makes what is shown of an item; `items` has those on the page as the broker gave them, by `key`."""

    def __init__(
        self,
        choice: BrokerChoice,
        part: str,
        columns: Mapping[str, str],
        row: Callable[[Row], Row],
        *,
        key: str,
        label: str,
        nothing: str,
        numbers: Sequence[str] = (),
        roomy: Sequence[str] = (),
        on_pick: Callable[[Row], Any] | None = None,
        seconds: float = 2.0,
    ) -> None:
        self._choice, self._part, self._row, self._key = choice, part, row, key
        self._nothing = nothing
        self._offset = self._total = 0
        self.items: dict[Any, Row] = {}
        with ui.element("div").classes("t-row"):
            self.broker = choice.select(self._other_broker)
            self._text = ui.input("Find", on_change=self._first).props("outlined dense clearable debounce=300")
        self._error = problem("")
        self._table = table(columns, key=key, numbers=numbers, roomy=roomy, label=label, pick=on_pick is not None)
        if on_pick is not None:
            first = next(iter(columns))
            self._table.add_slot(f"body-cell-{first}", _BUTTON)  # which the keyboard reaches, as it does not a row
            self._table.on("pick", lambda event: self._picked(event.args[key], on_pick))
        self._empty = empty(nothing)
        with ui.element("div").classes("t-row"):
            self._back = ui.button(
                icon="chevron_left", on_click=lambda: self._turn(-PAGE) if self._more_before else None
            )
            self._back.props('flat dense round aria-label="Page before"')
            self._where = ui.label().classes("t-faint").props("role=status")
            self._on = ui.button(
                icon="chevron_right", on_click=lambda: self._turn(len(self.items)) if self._more_after else None
            )
            self._on.props('flat dense round aria-label="Next page"')
        every(seconds, self.show)

    def _picked(self, key: Any, on_pick: Callable[[Row], Any]) -> Any:
        """Nothing, if the row has gone while it was clicked at."""
        return on_pick(self.items[key]) if key in self.items else None

    async def _other_broker(self) -> None:
        self.items, self._table.rows = {}, []  # a row of the broker before must not be picked as one of this
        await self._first()

    async def _first(self) -> None:
        self._offset = 0
        await self.show()

    @property
    def _more_before(self) -> bool:
        return self._offset > 0

    @property
    def _more_after(self) -> bool:
        return self._offset + len(self.items) < self._total

    async def _turn(self, by: int) -> None:
        self._offset = max(0, self._offset + by)
        await self.show()

    async def show(self) -> None:
        wanted, source = self._text.value or "", self._choice.source
        error, total, items = "", 0, list[Row]()
        try:
            total, items = await self._page(source, wanted)
            if not items and self._offset:  # the list has become shorter than this: its last page, then
                self._offset = max(0, total - 1) // PAGE * PAGE
                total, items = await self._page(source, wanted)
        except (TidingsError, OSError, TimeoutError) as caught:
            error = caught.reason if isinstance(caught, TidingsError) else "the broker does not answer"
        if source is not self._choice.source:  # another was chosen meanwhile, and is being asked
            return
        self.items = {item[self._key]: item for item in map(self._keyed, items)}
        self._table.rows = [{self._key: key, **self._row(item)} for key, item in self.items.items()]
        self._error.text = error
        self._error.set_visibility(bool(error))
        self._table.set_visibility(bool(items))
        self._empty.text = f"Nothing mentions “{wanted}”." if wanted else self._nothing
        self._empty.set_visibility(not items and not error)
        self._total = total
        self._where.text = f"{self._offset + 1}–{self._offset + len(items)} of {total}" if items else ""
        _offer(self._back, self._more_before)
        _offer(self._on, self._more_after)

    async def _page(self, source: Source, wanted: str) -> tuple[int, list[Row]]:
        """Returns the total and the items from `_offset`; fewer than 50 if they are too long for one answer."""
        found = await source.inspect(self._part, offset=self._offset, count=PAGE, containing=wanted)
        return found["total"], found["items"]

    def _keyed(self, item: Row) -> Row:
        """Subscriptions are identified by two numbers, all others by one field."""
        if self._key in item:
            return item
        return {**item, self._key: f"{item['connection']}/{item['subscription']}"}


def _offer(button: ui.button, useful: bool) -> None:
    """Only told and seen: a button that is hidden, or disabled in earnest, loses the keyboard's focus."""
    button.props["aria-disabled"] = "false" if useful else "true"
