"""`tidings durable`, against a real broker."""

import json

from hardening.support.command import Command

from tidings import sync
from tidings.testing.local_broker import BrokerThread


def test_durable_subscriptions_are_listed_and_removed(tidings: Command) -> None:
    with BrokerThread() as broker:
        at = ("--url", broker.url)
        for owner in ("alice/a:1", "alicia/b"):  # as if they were users
            with sync.connect(broker.url, client_id=owner) as client:
                client.subscribe("news", durable="audit:1").close()
                client.publish("queue:q", persistent=True, wait=True)
                client.publish("news", persistent=True, wait=True)
        listed = "alice/a:1 audit:1: 2 waiting, 0 subscribers\nalicia/b audit:1: 1 waiting, 0 subscribers\n"
        assert tidings("durable", "list", *at) == (0, listed, "")
        shown = json.loads(tidings("durable", "list", "--of", "alice", "--json", *at)[1])
        assert shown == [{"owner": "alice/a:1", "name": "audit:1", "waiting": 2, "subscribers": 0}]
        assert tidings("durable", "remove", "alice/a:1", "audit:1", *at) == (0, "removed audit:1 of alice/a:1\n", "")
        assert tidings("durable", "list", "--of", "alice", *at) == (0, "", "")
        assert tidings("durable", "remove", "alice/a:1", "audit:1", *at)[0] == 1
