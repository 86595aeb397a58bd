from dataclasses import replace

from tidings.broker.security.known_passwords import REMEMBER_SECONDS, KnownPasswords
from tidings.broker.security.passwords import PASSWORD_BYTES_MAX
from tidings.broker.security.users import User

ALICE = User("alice", "hash", frozenset())


def test_only_what_was_found_right_fits_for_the_same_user_and_for_a_while() -> None:
    known = KnownPasswords()
    assert not known.fits(0, "alice", ALICE, "right")
    known.remember(0, ALICE, "right")
    assert known.fits(REMEMBER_SECONDS - 1, "alice", ALICE, "right")
    assert not known.fits(0, "alice", ALICE, "wrong")
    assert not known.fits(0, "alice", ALICE, "")
    assert not known.fits(0, "alice", None, "right")
    assert not known.fits(0, "bob", User("bob", "hash", frozenset()), "right")
    assert not known.fits(REMEMBER_SECONDS, "alice", ALICE, "right")
    assert len(known) == 0


def test_a_changed_user_is_not_known_any_more() -> None:
    known = KnownPasswords()
    known.remember(0, ALICE, "right")
    assert not known.fits(0, "alice", replace(ALICE, groups=frozenset({"new"})), "right")
    assert not known.fits(0, "alice", ALICE, "right")
    known.remember(0, ALICE, "right")
    known.forget()
    assert not known.fits(0, "alice", ALICE, "right")


def test_no_password_and_too_long_ones_fit_nothing() -> None:
    known = KnownPasswords()
    known.remember(0, ALICE, "")
    assert len(known) == 0
    known.remember(0, ALICE, "x" * PASSWORD_BYTES_MAX)
    assert not known.fits(0, "alice", ALICE, "x" * (PASSWORD_BYTES_MAX + 1))


def test_the_digest_is_of_no_use_in_another_process() -> None:
    one, other = KnownPasswords(), KnownPasswords()
    one.remember(0, ALICE, "right")
    other._entries = one._entries
    assert not other.fits(0, "alice", ALICE, "right")
