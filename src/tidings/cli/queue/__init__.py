"""`tidings queue`, and the client of the management API that `status` and `connection` use too."""
