"""One profile for all property tests: no deadline, since how long an example takes says nothing about correctness."""

from hypothesis import settings

settings.register_profile("tidings", deadline=None)
settings.load_profile("tidings")
