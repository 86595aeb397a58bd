"""Mutated inputs for what reads them in Python; native/fuzz does the same for the kernel.

    python -m hardening.fuzz codecs 100000 1       decoders of what other brokers send
    python -m hardening.fuzz links 10000 1         a neighbour that lies, in networks of every routing scheme
    python -m hardening.fuzz configuration 50000 1 configuration files
    python -m hardening.fuzz segments 5000 1       damaged Parquet files
    python -m hardening.fuzz selectors 100000 1    selectors: the reference against the kernel
    python -m hardening.fuzz sockets 100000 1      streams of clients (native and STOMP) to a broker's ports

Inputs follow from the seed and their number, so a failure names the one that repeats it: `… codecs 1 1 --first 4711`.
`--results FILE` adds a line to a file of results. (AMQP has a runner of its own: `hardening.fuzz.amqp`.)
"""
