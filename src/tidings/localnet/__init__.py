"""Networks of broker processes on this machine: members, namespaces, ports."""
