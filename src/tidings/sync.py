"""The blocking client by its short name: `import tidings.sync`, or `from tidings.sync import connect`."""

from tidings.client.sync import (
    Advertisement,
    Client,
    Delivery,
    Queue,
    Receipt,
    RetainedSubscription,
    Subscription,
    Transaction,
    connect,
)

__all__ = [
    "Advertisement",
    "Client",
    "Delivery",
    "Queue",
    "Receipt",
    "RetainedSubscription",
    "Subscription",
    "Transaction",
    "connect",
]
