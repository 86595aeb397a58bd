"""A process that writes to a store until it is killed. Arguments: the file, the seed, batches done already; then, if it
is not to go on for ever, the last batch and a file in which it says after each that the store has it.

What batch n holds depends only on the seed and n, so whoever watches knows what must be in the store.
"""

import os
import random
import sys

from tidings.delivery.store import Acked, Attached, Detached, MailboxAdded, MailboxRemoved, Note, Record, Stored
from tidings.store.sqlite.store import SqliteStore, StoreLimits

SEQS_EACH = 40  # seqs reserved for each batch
LIMITS = StoreLimits(slack_bytes=20_000, slack_batches=20, small_bytes=5000, move_bytes=10_000, checkpoint_bytes=40_000)
BOXES = (1, 2, 3)


def batch(seed: int, number: int) -> list[Record]:
    rng = random.Random(f"{seed}/{number}")
    records: list[Record] = [MailboxAdded(box, f"queue:{box}", "queue") for box in BOXES if number == 1]
    first = number * SEQS_EACH
    for seq in range(first, first + rng.choice((0, 1, 3, SEQS_EACH))):
        boxes = tuple(rng.sample(BOXES, rng.randint(1, 3)))
        records.append(Stored(seq, rng.randbytes(rng.choice((5, 200, 3000))), boxes))
    for box in BOXES:
        old = max(1, number - rng.choice((1, 2, 3, 30))) * SEQS_EACH
        seqs = range(old, old + 2 * SEQS_EACH)
        records.append(Acked(box, tuple(rng.sample(seqs, rng.choice((1, 20, 80))))))
    if rng.random() < 0.1:
        records += [MailboxRemoved(3), MailboxAdded(3, f"queue:3 of {number}", "queue")]
    records.append(rng.choice((Attached, Detached))(rng.choice(BOXES)))
    return [*records, Note("batch", str(number).encode())]


def main(arguments: list[str]) -> None:
    path, seed, done = arguments[0], int(arguments[1]), int(arguments[2])
    last = int(arguments[3]) if arguments[3:] else None
    told = os.open(arguments[4], os.O_WRONLY | os.O_CREAT) if arguments[4:] else -1
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    store = SqliteStore(path, LIMITS)
    while done != last:
        done += 1
        store.append(batch(seed, done))
        if told >= 0:
            os.write(told, b".")
        sys.stdout.write(f"{done}\n")
        sys.stdout.flush()
        if done % 5 == 0:
            store.maintain()


if __name__ == "__main__":
    main(sys.argv[1:])
