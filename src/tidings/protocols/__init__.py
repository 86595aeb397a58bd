"""Protocol sessions without I/O: bytes in, requests out; answers in, bytes out. One file a protocol."""
