"""The measuring harness: experiments on running message brokers."""
