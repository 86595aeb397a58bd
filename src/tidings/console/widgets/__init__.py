"""Elements that several console panes share."""
