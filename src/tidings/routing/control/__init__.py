"""Control messages between brokers: records, byte codec, reliable flooding."""
