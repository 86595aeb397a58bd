"""Operations on destinations: those in use, and their traffic."""

from typing import Any

from tidings.broker.management.call import Call


async def destinations(call: Call) -> dict[str, Any]:
    return call.part("destinations")


async def traffic(call: Call) -> dict[str, Any]:
    return call.part("traffic")
