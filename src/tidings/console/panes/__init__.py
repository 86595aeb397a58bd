"""The panes, in the order in which the navigation shows them; one module each."""
