"""The steps of `tidings demo`, one module each; tidings.cli.demo.command runs them."""
