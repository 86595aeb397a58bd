"""Recording of message ids: histories, strategies, attachments, compaction."""
