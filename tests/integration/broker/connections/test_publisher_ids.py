"""Numbers of publishers cannot be guessed, and none is given out twice."""

from itertools import islice, pairwise

from tidings.broker.connections.publisher_ids import PUBLISHER_MAX, new_numbering, publisher_numbers

MANY = 50_000


def test_no_number_is_given_out_twice() -> None:
    numbers = list(islice(publisher_numbers(new_numbering()), MANY))
    assert len(set(numbers)) == MANY
    assert all(0 < number <= PUBLISHER_MAX for number in numbers)


def test_a_number_does_not_tell_the_next_one() -> None:
    """Neighbours are far apart, by distances that hardly repeat; and every process has its own."""
    numbers = list(islice(publisher_numbers(new_numbering()), 1_000))
    distances = {later - earlier for earlier, later in pairwise(numbers)}
    assert len(distances) > 990
    assert len(set(numbers) & set(islice(publisher_numbers(new_numbering()), 1_000))) < 10
