"""Merges what brokers say of a type whose form has changed compatibly: more optional attributes, a higher version.

A rendezvous node hears of a type from many brokers, some of which know an older form yet. A form wins over another that
it extends if its version is higher. One that is *added* needs no version: it gets the next one if it has more
attributes, and is forgotten if it has fewer. Everything else contradicts what is known.

>>> from tidings.model.event_type import AttributeType
>>> old = EventType("Trade", None, {"price": AttributeType.FLOAT})
>>> new = replace(old, attributes={**old.attributes, "fee": AttributeType.FLOAT}, optional=frozenset({"fee"}))
>>> merged((old,), (new,)), merged((old,), (new,), adding=True)[0].version
(None, 2)
>>> merged((replace(new, version=2),), (old,))[0].version
2
"""

from dataclasses import replace

from tidings.model.event_type import EventType

Chain = tuple[EventType, ...]  # a type after its ancestors, the root first


def merged(known: Chain, offered: Chain, *, adding: bool = False) -> Chain | None:
    """The newer form of each type; None: they contradict each other. `adding`: the last one is added."""
    if len(known) != len(offered):
        return None
    last, forms = len(known) - 1, list[EventType]()
    for place, (one, other) in enumerate(zip(known, offered, strict=True)):
        form = _merged(one, other, adding=adding and place == last)
        if form is None:
            return None
        forms.append(form)
    return tuple(forms)


def evolved(new: Chain, old: Chain) -> bool:
    """Reports whether events of the old form are events of the new one too."""
    pairs = zip(new, old, strict=False)
    return len(new) == len(old) and all(one == other or one.extends(other) for one, other in pairs)


def _merged(known: EventType, offered: EventType, *, adding: bool) -> EventType | None:
    if known == offered:
        return known if known.version >= offered.version else offered
    if offered.extends(known):
        if offered.version > known.version:
            return offered
        return replace(offered, version=known.version + 1) if adding else None
    if known.extends(offered):
        return known if adding or known.version >= offered.version else None
    return None
