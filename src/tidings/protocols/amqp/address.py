"""AMQP addresses and the destinations they name.

>>> read_address("topic://ticks.>"), read_address("/queue/orders"), read_address("examples")
('topic:ticks.>', 'queue:orders', 'queue:examples')
>>> read_address("examples", ("topic",)), read_address("examples", plain_is_queue=False)
('topic:examples', 'topic:examples')
>>> address_of(Destination("orders", True))
'queue://orders'
"""

from collections.abc import Collection

from tidings.model.destination import Destination

TOPIC_CAPABILITIES = ("topic", "temporary-topic")
QUEUE_CAPABILITIES = ("queue", "temporary-queue")
# What may stand before a name -> the kind it means, as the model writes it.
_PREFIXES = {
    "topic://": "topic:",
    "queue://": "queue:",
    "/topic/": "topic:",
    "/queue/": "queue:",
    "topic:": "topic:",
    "queue:": "queue:",
    "temp-queue://": "queue:",
    "temp-topic://": "topic:",
}


def read_address(address: str, capabilities: Collection[str] = (), *, plain_is_queue: bool = True) -> str:
    """The canonical text of the destination or pattern; whether its name is valid is for others to say.

    A plain name is what the terminus' capabilities say, and if they say nothing, what the broker is configured for.
    """
    for prefix, kind in _PREFIXES.items():
        if address.startswith(prefix):
            return kind + address[len(prefix) :]
    if any(one in capabilities for one in TOPIC_CAPABILITIES):
        return f"topic:{address}"
    if any(one in capabilities for one in QUEUE_CAPABILITIES):
        return f"queue:{address}"
    return f"queue:{address}" if plain_is_queue else f"topic:{address}"


def address_of(destination: Destination) -> str:
    return f"{'queue' if destination.queue else 'topic'}://{destination.name}"
