"""Links that flap and networks cut in two."""
