"""The log of checksummed batches that stores keep, whatever holds it: its index, its small state, its compaction."""
