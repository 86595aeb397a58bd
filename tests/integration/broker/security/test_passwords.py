import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.broker.security.passwords import PASSWORD_BYTES_MAX, Cost, PasswordHash, hash_password, verify
from tidings.errors import UsageError

CHEAP = Cost(n=2, r=1, p=1)
PASSWORDS = st.text(min_size=1, max_size=40)


@given(PASSWORDS, PASSWORDS)
def test_only_the_password_fits(password: str, other: str) -> None:
    text = hash_password(password, CHEAP)
    assert verify(password, text)
    assert verify(other, text) == (other == password)
    assert str(PasswordHash.parse(text)) == text


def test_equal_passwords_have_different_hashes() -> None:
    assert hash_password("same", CHEAP) != hash_password("same", CHEAP)


def test_the_default_is_memory_hard() -> None:
    cost = Cost()
    assert 128 * cost.n * cost.r >= 32 << 20
    text = hash_password("a")
    assert text.startswith("scrypt$n=32768,r=8,p=3$")
    assert verify("a", text)


def test_long_and_empty_passwords_are_refused() -> None:
    longest = "x" * PASSWORD_BYTES_MAX
    text = hash_password(longest, CHEAP)
    assert verify(longest, text)
    assert not verify(longest + "x", text)
    for password in ("", longest + "x"):
        with pytest.raises(UsageError):
            hash_password(password, CHEAP)


@given(st.one_of(st.text(max_size=80), st.from_regex(r"scrypt\$n=\d{1,9},r=\d{1,4},p=\d{1,4}\$[\w+/=]*\$[\w+/=]*")))
def test_any_hash_is_read_or_refused_without_large_cost(text: str) -> None:
    try:
        cost = PasswordHash.parse(text).cost
    except UsageError:
        return
    assert 128 * cost.n * cost.r <= 256 << 20
    assert cost.p <= 16


def test_nothing_secret_is_shown() -> None:
    text = hash_password("hunter2", CHEAP)
    assert text.split("$")[-1] not in repr(PasswordHash.parse(text))
