"""The state machines of an AMQP 1.0 connection, without I/O: connection, sessions, links, deliveries.

They know frames, windows, credit and settlement (specification, part 2). What a link stands for is its owner's."""
