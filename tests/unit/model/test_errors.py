"""Errors can be passed on to other processes."""

import copy
import pickle

import pytest

from tidings import errors
from tidings.model.event_type import EventTypeError

ERRORS = [
    errors.SelectorError("E_SELECTOR_SYNTAX", "expected a value", position=8),
    errors.ConfigError(["one", "two"]),
    errors.RemoteProtocolError("E_FRAME", "none", fatal=False),
    errors.StoreError("E_STORE_FULL", "no space"),
    errors.ConnectionLostError("E_CONNECTION_LOST", "gone"),
    EventTypeError("E_TYPE", "unknown"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_copy_says_the_same(error: errors.TidingsError) -> None:
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert (type(other), str(other), vars(other)) == (type(error), str(error), vars(error))
        assert other is not error
