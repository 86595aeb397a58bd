"""AMQP 1.0: session, links, messages, transactions, SASL."""
