"""Values, messages, destinations, selectors, predicates, event types: everything both planes talk about."""
