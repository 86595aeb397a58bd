"""`python -m tidings.cli`."""

from tidings.cli import main

main()
