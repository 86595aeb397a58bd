"""A field for a selector: checked while it is written, with a mark below the place where it goes wrong, and help."""

from nicegui import ui

from tidings.console.widgets.parts import facts, problem
from tidings.errors import SelectorError
from tidings.model.selector import Selector

_HELP = {
    "price > 20": "compares numbers: =, <>, <, <=, >, >=",
    "stock = 'XYZ'": "texts stand in single quotes; '' is a quote inside",
    "price BETWEEN 10 AND 20": "both ends belong to it",
    "stock IN ('XYZ', 'ABC')": "one of these",
    "name LIKE 'A%_'": "% is any text, _ any one character",
    "price IS NOT NULL": "the property is there",
    "urgent = TRUE AND NOT (price > 5 OR a = 'b')": "AND, OR, NOT and parentheses",
    "price * 2 + 1 > limit": "arithmetic with + - * /",
    "JMSPriority > 4": "header fields: JMSPriority, JMSType, JMSCorrelationID, JMSTimestamp …",
}


class SelectorInput:
    def __init__(self) -> None:
        self._input = ui.input("Selector (empty: everything)", value="price > 20", on_change=self.check)
        self._input.props("outlined dense").classes("t-selector")
        self._mark = ui.label().classes("t-mark").props("aria-hidden=true")
        self._mark.set_visibility(False)
        self._reason = problem("")
        self._reason.set_visibility(False)
        with ui.expansion("What can a selector say?").props("dense"):
            facts(_HELP)

    @property
    def text(self) -> str:
        return str(self._input.value or "")

    def check(self) -> bool:
        """True if the text is a selector; otherwise the position of the error is shown."""
        try:
            Selector(self.text)
        except SelectorError as error:
            self._tell(marked(self.text, error), error.reason)
            return False
        self._tell("", "")
        return True

    def _tell(self, mark: str, reason: str) -> None:
        self._mark.text, self._reason.text = mark, reason
        for one in (self._mark, self._reason):
            one.set_visibility(bool(reason))


def marked(text: str, error: SelectorError) -> str:
    """
    >>> print(marked("price >> 2", SelectorError("E_SELECTOR_SYNTAX", "expected a value", position=7)))
    price >> 2
           ^
    """
    line = "".join(" " if character.isspace() else character for character in text)
    return f"{line}\n{' ' * (error.position or 0)}^"
