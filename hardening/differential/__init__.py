"""The same random client scripts at the simulated broker and at the real one on sockets: both must answer alike.

    python -m hardening.differential 17          # one script
    python -m hardening.differential 1 1000      # many

- `script`: what clients do, as data; `author`: makes a script of a seed
- `paired`: the interface to a broker; `simulated` and `sockets`: the two
- `compare`: runs a script at both
"""
