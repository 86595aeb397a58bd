"""The generated pages of the reference say what there is."""

import inspect
import re

import pytest
from docs.pages import api, blocking_client, console, members, metrics

import tidings
from tidings.client import sync
from tidings.client.connection.answers import Receipt
from tidings.client.queue import Browsed
from tidings.client.retained import RetainedPage
from tidings.tracking.query.path import Hop, Path


@pytest.fixture(scope="module")
def reference() -> str:
    return api.page()


def section(page: str, title: str) -> str:
    """What stands under a heading, up to the next one of any level."""
    found = re.search(rf"^#+ {re.escape(title)}\n(.*?)(?=^#|\Z)", page, re.MULTILINE | re.DOTALL)
    assert found is not None, title
    return found[1]


def test_the_api_page_has_what_the_blocking_client_offers_too(reference: str) -> None:
    """It has one method for each that is meant for users, inherited or not."""
    names = [name for name, one in vars(sync.Client).items() if not name.startswith("_") and inspect.isfunction(one)]
    assert len(names) > 15
    assert [name for name in names if f"### Client.{name}\n" not in reference] == []
    assert "**`errors: deque[TidingsError]`**" in section(reference, "Client")


def test_the_blocking_client_is_what_its_generator_makes() -> None:
    """After a change of the asynchronous client: python -m docs.pages.blocking_client"""
    assert blocking_client.TARGET.read_text() == blocking_client.source()


def test_the_api_page_has_the_public_methods_of_all_classes_but_the_internal_ones(reference: str) -> None:
    for one in api.CLASSES:
        methods = inspect.getmembers(one, lambda member: inspect.isfunction(member) or inspect.ismethod(member))
        names = {name for name, _ in methods if not name.startswith("_")}
        shown = set(re.findall(rf"^### {one.__name__}\.(\w+)$", reference, re.MULTILINE))
        assert shown == names - api.INTERNAL.get(one, frozenset())


def test_what_is_internal_is_there_and_is_not_shown(reference: str) -> None:
    for one, names in api.INTERNAL.items():
        known = {*members.methods(one), *members.properties(one), *(each.name for each in members.attributes(one))}
        assert names <= known
    for name in ("disconnected", "leave", "request", "settle"):
        assert f"Subscription.{name}" not in reference


@pytest.mark.parametrize("record", [Receipt, RetainedPage, Path, Hop, Browsed, tidings.Delivery])
def test_the_api_page_has_the_fields_of_records(record: type, reference: str) -> None:
    about = section(reference, record.__name__)
    fields = inspect.get_annotations(record) or {"message": None, "attempt": None}
    wanted = [name for name in fields if name not in api.INTERNAL.get(record, ())]
    assert [name for name in wanted if f"**`{name}: " not in about] == []


def test_the_api_page_says_what_fields_mean(reference: str) -> None:
    page = section(reference, "RetainedPage")
    assert "**`next: int`** the offset to go on from" in page
    assert "**`messages: list[tuple[int, tidings.model.message.Message]]`**" in page


def test_parameters_that_must_be_named_come_after_a_star(reference: str) -> None:
    about = section(reference, "Client.publish")
    assert "    body: bytes | str | dict[str, Any] | list[Any] = b'',\n    *,\n    persistent: bool = False,\n" in about
    for one in api.CLASSES:
        for name, method in members.methods(one).items():
            kinds = {parameter.kind for parameter in inspect.signature(method).parameters.values()}
            if inspect.Parameter.KEYWORD_ONLY in kinds:
                assert re.search(r"[\s(]\*(\w+)?,", api.signature(method)), f"{one.__name__}.{name}"


def test_a_star_that_has_a_name_is_not_repeated() -> None:
    def takes(*some_arguments_with_a_long_name: int, and_another_with_a_long_name: int = 0, also: int = 0) -> None: ...

    assert api.signature(takes).count("*") == 1


def test_the_console_s_page_has_what_was_measured() -> None:
    text = console.PAGE.read_text()
    assert console.renewed(text) == text, "run: python -m docs.pages.console"


def test_metrics_without_a_sample_have_their_labels_on_the_page() -> None:
    broker = "# HELP tidings_connections Of clients.\n# TYPE tidings_connections gauge\n"
    broker += 'tidings_connections{state="ready"} 1\n'
    broker += "# HELP tidings_logins_refused_total Refused.\n# TYPE tidings_logins_refused_total counter\n"
    assert metrics.described(broker) == [
        "| `tidings_connections` | gauge | state | Of clients. |",
        "| `tidings_logins_refused_total` | counter | code | Refused. |",
    ]
