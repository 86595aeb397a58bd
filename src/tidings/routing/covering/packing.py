"""Packing: active covering in which all that a step has to say to a neighbour travels in one message."""

from tidings.routing.covering.active import Active


class Packing(Active):
    name = "packing"
    packs = True
