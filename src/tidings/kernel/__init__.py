"""The C++ kernel's Python face."""
