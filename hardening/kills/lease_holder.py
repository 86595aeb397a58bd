"""A process that writes a store in a database until it may not: to be killed or stopped by tests.

    python -m hardening.kills.lease_holder URL LEASE_MS

It prints each seq whose batch was confirmed, and at the end the code of the error that ended it.
"""

import sys

from tidings.delivery.store import MailboxAdded, Record, Stored
from tidings.errors import StoreError
from tidings.store.postgresql.options import DatabaseOptions
from tidings.store.postgresql.place import PostgresPlace


def main() -> None:
    url, lease_ms = sys.argv[1:]
    place = PostgresPlace(DatabaseOptions(url, 1, lease_ms=float(lease_ms)))
    lease = place.lease()
    assert lease.wait(60)
    store = place.open(lease)
    seq = store.recover().last_seq
    try:
        while True:
            seq += 1
            batch: list[Record] = [MailboxAdded(1, "queue:a", "queue"), Stored(seq, str(seq).encode(), (1,))]
            store.append(batch)
            print(seq, flush=True)  # noqa: T201
    except StoreError as error:
        print(error.code, flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
