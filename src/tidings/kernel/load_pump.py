"""The load generator of calibrations, in C++ so that it does not measure itself (native/bindings/load_pump.cpp)."""

from tidings._kernel import LoadPump

__all__ = ["LoadPump"]
