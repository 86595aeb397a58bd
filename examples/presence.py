"""Presence: who of my friends is online?

Every user tells when their state changes and wants to hear of a few others: their buddy list. That is one
subscription each, `user IN (…)`. When a list changes, the new subscription is made before the old one ends; `subscribe`
returns when it is active, so no change falls between the two.

This is the scenario for which R. Henjes compares filters in section 3.3.3 of his thesis (IN against a long OR);
`tidings lab run presence` measures it.

Run it with a broker running: python examples/presence.py tidings://127.0.0.1:7300
"""

import asyncio
import random
import sys

import tidings

USERS, BUDDIES, CHANGES = 60, 8, 600
STATES = ("online", "away", "busy", "offline")


def in_list(names: set[str]) -> str:
    """A selector for the state changes of these users; quotes in names are doubled, as in SQL."""
    return "user IN ({})".format(", ".join("'{}'".format(name.replace("'", "''")) for name in sorted(names)))


class Roster:
    """What one user knows of the others."""

    def __init__(self, client: tidings.Client, buddies: set[str]) -> None:
        self.client, self.buddies = client, buddies
        self.states: dict[str, str] = {}
        self.seen = 0
        self._tasks: list[asyncio.Task[None]] = []
        self._subscription: tidings.Subscription | None = None

    async def follow(self, buddies: set[str]) -> None:
        """Follow these from now on."""
        before, self.buddies = self._subscription, buddies
        selector = f"{in_list(buddies)} OR end = TRUE"
        self._subscription = await self.client.subscribe("presence", selector=selector)
        self._tasks.append(asyncio.create_task(self._listen(self._subscription)))
        if before is not None:
            await before.close()
        for name in set(self.states) - buddies:
            del self.states[name]

    async def _listen(self, subscription: tidings.Subscription) -> None:
        async for message in subscription:
            if message.properties.get("end"):
                return
            user, state = str(message.properties["user"]), str(message.properties["state"])
            self.seen += 1
            if user in self.buddies:
                self.states[user] = state

    async def ended(self) -> None:
        await asyncio.gather(*self._tasks)


async def change(client: tidings.Client, rng: random.Random, names: list[str], truth: dict[str, str]) -> None:
    """Somebody's state changes, and the broker has taken note of it."""
    name = rng.choice(names)
    truth[name] = rng.choice(STATES)
    await client.publish("presence", {"user": name, "state": truth[name]}, wait=True)


async def chat(url: str) -> tuple[int, list[str]]:
    """How many notifications there were, and who knows something that is not so."""
    rng = random.Random(1)
    names = [f"user-{number:02}" for number in range(USERS)]
    truth: dict[str, str] = {}
    async with tidings.connect(url) as people, tidings.connect(url) as server:
        rosters = {name: Roster(people, set(rng.sample(names, BUDDIES))) for name in names}
        for roster in rosters.values():
            await roster.follow(roster.buddies)
        for _ in range(CHANGES // 2):
            await change(server, rng, names, truth)
        for name in names[:10]:  # some make new friends while everything goes on
            roster = rosters[name]
            friend = rng.choice([one for one in names if one not in roster.buddies])
            await roster.follow(roster.buddies | {friend})
            await change(server, rng, [friend], truth)
        for _ in range(CHANGES // 2):
            await change(server, rng, names, truth)
        await server.publish("presence", {"end": True})
        for roster in rosters.values():
            await roster.ended()
        wrong = [
            name
            for name, roster in rosters.items()
            if any(roster.states.get(buddy, truth.get(buddy)) != truth.get(buddy) for buddy in roster.buddies)
        ]
        return sum(roster.seen for roster in rosters.values()), wrong


def main(url: str = "tidings://127.0.0.1:7300") -> None:
    notified, wrong = asyncio.run(chat(url))
    published = CHANGES + 10
    print(f"{USERS} users with {BUDDIES} buddies each, {published} changes")
    print(f"{notified} notifications, {notified / published:.1f} a change; to tell everybody: {published * USERS}")
    if wrong:
        sys.exit(f"these have a wrong picture of a buddy: {', '.join(wrong)}")
    print("everybody knows the state of their buddies")


if __name__ == "__main__":
    main(*sys.argv[1:])
