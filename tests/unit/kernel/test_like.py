"""LIKE in the kernel: the answers of the reference and of a plain oracle, in a number of steps that the text bounds."""

from functools import cache
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidings.kernel.matcher import FILTER_STEPS, Budget, like
from tidings.model.like import Pattern

UNLIMITED = 2**64 - 1
pieces = st.sampled_from(
    ["a", "b", "%", "_", "\\%", "\\_", "\\\\", "é", "€", "𝄞", "ab", "a_", "%a_", "_" * 20, "a" * 30]
)
patterns = st.lists(pieces, max_size=8).map("".join)
texts = st.lists(st.sampled_from(["a", "b", "é", "€", "𝄞", "%", "_", "\\", "ab" * 10, "a" * 40]), max_size=8).map(
    "".join
)


def oracle(pattern: str, text: str) -> bool:
    """By definition, every way to divide the text tried."""

    @cache
    def rest(i: int, j: int) -> bool:
        if i == len(pattern):
            return j == len(text)
        if pattern[i] == "%":
            return rest(i + 1, j) or (j < len(text) and rest(i, j + 1))
        if j == len(text):
            return False
        if pattern[i] == "_":
            return rest(i + 1, j + 1)
        escaped = pattern[i] == "\\" and i + 1 < len(pattern)
        return pattern[i + escaped] == text[j] and rest(i + 1 + escaped, j + 1)

    return rest(0, 0)


def kernel(pattern: str, text: str) -> tuple[bool, int]:
    budget = Budget(UNLIMITED)
    return like(pattern, text, budget), budget.taken


def words(pattern: str) -> int:
    """Words of 64 elements of the longest run."""
    return 1 + max(len(run) for run in Pattern.parse(pattern).runs) // 64


def steps_max(pattern: str, text: str) -> int:
    """Some for each byte, and one for each word of 64 elements."""
    return (len(text.encode()) + len(pattern.encode())) * (5 + words(pattern))


@given(patterns, texts)
@example("%a_b%", "aab")
@example("%_é%", "éé")
@example("a%a", "a")
@example("%\\", "\\")
def test_kernel_reference_and_oracle_agree(pattern: str, text: str) -> None:
    answer, steps = kernel(pattern, text)
    assert answer == Pattern.parse(pattern).matches(text) == oracle(pattern, text)
    assert steps <= steps_max(pattern, text)


@pytest.mark.parametrize("seed", range(20))
def test_long_runs_with_many_ways_to_match(seed: int) -> None:
    rng = Random(seed)
    for _ in range(20):
        alphabet = rng.choice(["a_", "ab_", "a_é", "ab_%", "aaaaaaaa_"])
        pattern = (
            "%"
            + "".join(rng.choices(alphabet, k=rng.choice((63, 64, 65, 127, 128, 129, 400))))
            + rng.choice(("%", "b%", ""))
        )
        text = "".join(rng.choices(rng.choice(["a", "ab", "aaaaaé"]), k=rng.choice((60, 130, 500, 2000)))) + rng.choice(
            ("", "b")
        )
        answer, steps = kernel(pattern, text)
        assert answer == Pattern.parse(pattern).matches(text)
        assert steps <= steps_max(pattern, text)


@pytest.mark.parametrize(
    "pattern",
    [
        "%" + "a_" * 31 + "b%",  # one word
        "%" + "a" * 200 + "b%",
        "%" + "b" + "a" * 200 + "%",
        "%a" * 2000 + "%b",
        "%" + "_" * 60 + "b%c",
        "_" * 4000 + "%b_",
        "%" + "a_%" * 1000 + "c%",
    ],
)
def test_steps_are_linear_in_the_text(pattern: str) -> None:
    """Twice the text takes at most about twice the steps, whatever the pattern; the start is the pattern's."""
    for size in (10_000, 20_000, 40_000):
        _, steps = kernel(pattern, "a" * size)
        assert steps <= 5 * (size + len(pattern))


def test_the_longest_pattern_takes_a_step_for_64_elements() -> None:
    _, steps = kernel("%" + "a_" * 2046 + "b%", "a" * 10_000)
    assert steps <= 10_000 * (2 + 64)
    _, steps = kernel("%" + "ab_" * 1364 + "b%", "a" * 10_000)  # few elements are reached: few words
    assert steps <= 10_000 * 3


def test_a_budget_ends_the_search() -> None:
    budget = Budget(100_000)
    assert like("%" + "a_" * 2046 + "b%", "a" * 1_000_000, budget) is False
    assert budget.exhausted
    assert budget.taken <= 100_000 + FILTER_STEPS + 256 * 66
