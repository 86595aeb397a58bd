"""Names of subscribers in histories and reports."""

from tidings.node.clients.session import Connection


def subscriber_name(client: Connection) -> str:
    """The name of a client in reports: its id, which stays the same; without one, its user and connection."""
    own = client.client_id
    if own and not own.endswith("/"):  # with users, "name/" stands before each id
        return own
    return f"{own or client.principal.name + '/'}#{client.number}"


def consumer_name(mailbox: str, client: Connection) -> str:
    """The name in reports of a client that was given a message from a mailbox."""
    return f"{mailbox} to {subscriber_name(client)}"
