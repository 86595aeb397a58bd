"""AMQP addresses and the destinations they name.

>>> read_address("topic://ticks.>"), read_address("/queue/orders"), read_address("examples")
('topic:ticks.>', 'queue:orders', 'queue:examples')
>>> read_address("examples", ("topic",)), read_address("examples", plain_is_queue=False)
('topic:examples', 'topic:examples')
>>> address_of(Destination("orders", True))
'queue://orders'
"""

from collections.abc import Collection

from tidings.model.destination import Destination, split_prefix

TOPIC_CAPABILITIES = ("topic", "temporary-topic")
QUEUE_CAPABILITIES = ("queue", "temporary-queue")
_TEMPORARY = {"temp-queue://": "queue:", "temp-topic://": "topic:"}  # as JMS clients write them


def read_address(address: str, capabilities: Collection[str] = (), *, plain_is_queue: bool = True) -> str:
    """The canonical text of the destination or pattern; whether its name is valid is for others to say.

    A plain name is what the terminus' capabilities say, and if they say nothing, what the broker is configured for.
    """
    for prefix, kind in _TEMPORARY.items():
        if address.startswith(prefix):
            return kind + address[len(prefix) :]
    if any(one in capabilities for one in TOPIC_CAPABILITIES):
        plain_is_queue = False
    elif any(one in capabilities for one in QUEUE_CAPABILITIES):
        plain_is_queue = True
    queue, name = split_prefix(address, plain_is_queue=plain_is_queue)
    return f"{'queue' if queue else 'topic'}:{name}"


def address_of(destination: Destination) -> str:
    return f"{'queue' if destination.queue else 'topic'}://{destination.name}"
