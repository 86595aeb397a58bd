"""Processes ended at random, power failures, damaged stores."""
