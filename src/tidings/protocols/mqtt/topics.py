"""Topic names and filters of MQTT, and their mapping to destinations, which is one to one in both directions.

Six characters change places: `/` and `.`, `+` and `*`, `#` and `>`. So levels and wildcards become those of
destinations, and a character that separates here and not there is kept. What destinations must not hold gets a tilde
in front: an empty level, a `/` at the beginning, a part that is `+` or `#`; so does what has tildes before such.

>>> to_destination("sensors/room.1//temperature"), to_topic("sensors.room/1.~.temperature")
('sensors.room/1.~.temperature', 'sensors/room.1//temperature')
>>> patterns("sensors/+/#")
('sensors.*', 'sensors.*.>')
"""

import re

from tidings.protocols.mqtt.reasons import MqttError, Reason

_SWAPPED = str.maketrans("/.+*#>", "./*+>#")
_WILD = re.compile("[+#]")
_FILTER_FAULT = re.compile(r"(?:^|/)[^/]*(?:[^/]\+|\+[^/])|#.|[^/]#", re.DOTALL)
# Where a name has one more tilde here: `%` is where it stands.
_TILDE_PLACES = r"(?:\A|(?<=\.))%(?=~*(?:\.|\Z))|\A%(?=~*/)|(?:\A|(?<=[./]))%(?=~*[+#](?:[./]|\Z))"
_WITHOUT, _WITH = re.compile(_TILDE_PLACES.replace("%", "")), re.compile(_TILDE_PLACES.replace("%", "~"))
SHARE = "$share/"


def check_name(topic: str) -> str:
    """A topic name: at least one character [MQTT-4.7.3-1], no wildcards [MQTT-3.3.2-2]."""
    if not topic or _WILD.search(topic):
        raise MqttError(Reason.TOPIC_NAME, f"invalid topic name {topic[:80]!r}")
    return topic


def check_filter(filter: str) -> str:
    """A topic filter: wildcards only as whole levels, `#` only as the last one [MQTT-4.7.1-1, -2]."""
    topic, _ = split_conditions(filter)
    if filter.startswith(SHARE):  # [MQTT-4.8.2-1, -2]
        name, _, topic = topic.removeprefix(SHARE).partition("/")
        if not name or _WILD.search(name):
            raise MqttError(Reason.TOPIC_FILTER, f"invalid share name in {filter[:80]!r}")
    if not topic or _FILTER_FAULT.search(topic):
        raise MqttError(Reason.TOPIC_FILTER, f"invalid topic filter {filter[:80]!r}")
    return filter


def split_conditions(filter: str) -> tuple[str, str | None]:
    """A topic filter and the conditions behind it, which may be a level of their own: clients check wildcards.

    >>> split_conditions("ticks/xyz?price>20"), split_conditions("ticks/+/?price>20"), split_conditions("ticks/+")
    (('ticks/xyz', 'price>20'), ('ticks/+', 'price>20'), ('ticks/+', None))
    """
    topic, mark, conditions = filter.partition("?")
    return (topic.removesuffix("/"), conditions) if mark else (topic, None)


def to_destination(topic: str) -> str:
    """The name of the destination of a topic name, or the pattern of a filter without `#`."""
    return _WITHOUT.sub("~", topic.translate(_SWAPPED))


def to_topic(name: str) -> str:
    """The topic name of a destination's name."""
    return _WITH.sub("", name).translate(_SWAPPED)


def patterns(filter: str) -> tuple[str, ...]:
    """The destination patterns of a topic filter: `a/#` includes `a` itself (4.7.1.2)."""
    if filter == "#":
        return (">",)
    if filter.endswith("/#"):
        parent = to_destination(filter[:-2])
        return parent, f"{parent}.>"
    return (to_destination(filter),)
