"""`tidings lab`: measure, fit, compare, validate."""
