"""The store in a PostgreSQL database, which outlives the machine of its broker: tables, lease, reconnecting."""
