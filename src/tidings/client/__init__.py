"""The client: `connect` for asyncio, `sync.connect` for blocking calls."""

from tidings.client import sync
from tidings.client.client import Client
from tidings.client.delivery import Delivery
from tidings.client.factory import connect
from tidings.client.subscription import Subscription
from tidings.client.transaction import Transaction

__all__ = ["Client", "Delivery", "Subscription", "Transaction", "connect", "sync"]
