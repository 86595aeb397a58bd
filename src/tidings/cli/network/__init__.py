"""Parts of `tidings net`: changes of a network and questions, at brokers that run."""
