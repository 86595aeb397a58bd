"""Constants of brokers, drawn by chance: each as it is by default, or so small that its limit is met all the time."""

from dataclasses import replace
from random import Random

from tidings.node.settings import NodeSettings, Pieces
from tidings.sim.broker import DELIVERIES_MAX, Sizes


def random_pieces(rng: Random) -> Pieces:
    usual = Pieces()
    pieces = Pieces(
        load_messages=rng.choice((1, 2, 5, usual.load_messages)),
        transit_bytes_max=rng.choice((1, 500, usual.transit_bytes_max)),
        events_bytes_max=rng.choice((200, usual.events_bytes_max)),
        expiry_messages=rng.choice((1, 10, usual.expiry_messages)),
        expiry_page=rng.choice((1, 3, usual.expiry_page)),
        later_changes=rng.choice((1, 4, usual.later_changes)),
        changes_bytes_max=rng.choice((1, 100, usual.changes_bytes_max)),
        solo_messages=rng.choice((1, 4, usual.solo_messages)),
    )
    # No draw of its own: seeds keep what they were.
    return replace(pieces, journal_messages=3) if pieces.later_changes == 4 else pieces


def random_sizes(rng: Random) -> Sizes:
    """Nothing that makes a broker refuse or drop what is asked of it: only when, and in which pieces, it works."""
    usual, settings = Sizes(), NodeSettings()
    messages_bytes, pinned_bytes = rng.choice(
        ((400, 0), (400, 100), (5_000, 0), (5_000, 1_000), (settings.messages_bytes_max, settings.pinned_bytes_max))
    )  # only memory has the pinned ones: if they were as many as all, publishers would wait for ever
    return Sizes(
        read_bytes=rng.choice((16, 200, usual.read_bytes)),
        take_bytes=rng.choice((100, 3000, usual.take_bytes)),
        output_bytes_max=rng.choice((500, 20_000, usual.output_bytes_max)),
        requests_max=rng.choice((1, 3, usual.requests_max)),
        settings=replace(
            settings,
            deliveries_max=DELIVERIES_MAX,
            messages_bytes_max=messages_bytes,
            pinned_bytes_max=pinned_bytes,
            journal_bytes_max=rng.choice((100, 2_000, settings.journal_bytes_max)),
            pieces=random_pieces(rng),
        ),
    )


def random_relay_sizes(rng: Random, sizes: Sizes) -> Sizes:
    """With so few ids of other brokers' messages that only numbers tell which copies were taken, or with all of them
    and so few ranges of numbers that these are often closed."""
    usual = Pieces()
    pieces = sizes.settings.pieces
    slots, slot_ids, ranges = rng.choice(
        (
            (1, 1, usual.number_ranges_max),
            (2, 3, usual.number_ranges_max),
            (usual.relay_id_slots, usual.relay_slot_ids, 1),
            (usual.relay_id_slots, usual.relay_slot_ids, usual.number_ranges_max),
        )
    )
    pieces = replace(pieces, relay_id_slots=slots, relay_slot_ids=slot_ids, number_ranges_max=ranges)
    return replace(sizes, settings=replace(sizes.settings, pieces=pieces))


def forgets_ids(sizes: Sizes) -> bool:
    """True if a message that its publisher sends again may be unknown at other brokers: it comes twice, marked."""
    return sizes.settings.pieces.relay_id_slots < Pieces().relay_id_slots
