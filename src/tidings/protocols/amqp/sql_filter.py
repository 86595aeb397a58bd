"""SQL filter expressions of AMQP (`amqp:sql-filter`) as selectors: fields are named with the section that they are in.

>>> to_selector("properties.subject = 'header.priority' AND header.priority > 4 AND a.price > 20")
"JMSType = 'header.priority' AND JMSPriority > 4 AND price > 20"
>>> to_selector("p.group_id IN ('a', 'b') OR region = 'EU'")
"JMSXGroupID IN ('a', 'b') OR region = 'EU'"
>>> to_selector("properties.to = 'x'")
Traceback (most recent call last):
tidings.errors.RemoteProtocolError: E_AMQP_FILTER at 0: a filter cannot name the field properties.to
"""

import re

from tidings.errors import RemoteProtocolError

_TOKEN = re.compile(r"'(?:[^']|'')*'|[A-Za-z_$][\w$]*(?:\.[\w$]+)*")
_SECTIONS = {"h": "header", "p": "properties", "a": "application_properties"}
# Fields of our messages (docs/protocols.md, "AMQP field mapping").
_FIELDS = {
    "header.priority": "JMSPriority",
    "properties.message_id": "JMSXMessageID",
    "properties.user_id": "JMSXUserID",
    "properties.subject": "JMSType",
    "properties.reply_to": "JMSReplyTo",
    "properties.correlation_id": "JMSCorrelationID",
    "properties.creation_time": "JMSTimestamp",
    "properties.group_id": "JMSXGroupID",
    "properties.group_sequence": "JMSXGroupSeq",
}


def to_selector(expression: str) -> str:
    """The selector that says the same; names without a section are application properties."""
    return _TOKEN.sub(_renamed, expression)


def _renamed(found: re.Match[str]) -> str:
    token = found[0]
    section, dot, field = token.partition(".")
    section = _SECTIONS.get(section, section) if dot else section
    if not dot or section not in _SECTIONS.values():
        return token
    if section == "application_properties":
        return field
    if (name := _FIELDS.get(f"{section}.{field}")) is None:
        reason = f"a filter cannot name the field {section}.{field}"
        raise RemoteProtocolError("E_AMQP_FILTER", reason, fatal=False, position=found.start())
    return name
