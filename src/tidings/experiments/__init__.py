"""Experiments of the papers, repeated in virtual time: each is a function from options to results."""
