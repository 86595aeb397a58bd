"""B-DRP: content-based routing with encoded interests of every router."""
