"""`tidings net`: networks of brokers on one machine, changes and questions at brokers that run."""
