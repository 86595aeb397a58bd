"""Addresses: where links are dialled (host:port), and the network that a peer's address is part of."""

import ipaddress
import re

_ADDRESS = re.compile(r"(\[?[^\s/@\[\]]+\]?):([0-9]{1,5})")


def is_address(text: str) -> bool:
    """True for a host name or address with a port. IPv6 addresses may be in brackets or not: the last colon counts.

    >>> [is_address(text) for text in ("10.0.0.5:7301", "broker.example:1", "[::1]:7301", "::1:7301")]
    [True, True, True, True]
    >>> [is_address(text) for text in ("nowhere", ":1", "a:0", "a:65536", "a:²", "a b:1", "a:1:2", "[a]:1", "fe80::1")]
    [False, False, False, False, False, False, False, False, False]
    """
    found = _ADDRESS.fullmatch(text)
    return found is not None and 0 < int(found[2]) < 65536 and _is_host(found[1])


def _is_host(text: str) -> bool:
    if not set(text) & set("[:]"):
        return True
    if text.startswith("[") != text.endswith("]"):
        return False
    try:
        ipaddress.IPv6Address(text.strip("[]"))
    except ValueError:
        return False
    return True


def prefix_of(address: str) -> str:
    """The network that an address is part of, as far as one party usually has it: /24 of IPv4, /48 of IPv6. Anything
    else stands for itself.

    >>> prefix_of("192.0.2.77"), prefix_of("2001:db8:1:2::3"), prefix_of("::ffff:192.0.2.77"), prefix_of("fe80::1%eth0")
    ('192.0.2.0/24', '2001:db8:1::/48', '192.0.2.0/24', 'fe80::/48')
    >>> prefix_of("")
    ''
    """
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is None:
            return str(ipaddress.IPv6Network((found, 48), strict=False))
        found = found.ipv4_mapped
    return str(ipaddress.IPv4Network((found, 24), strict=False))
