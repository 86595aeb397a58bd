"""Single routing machines under random schedules and failures."""
