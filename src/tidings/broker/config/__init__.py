"""Configuration of a broker: tables, rules, positions in the file, generated documentation."""
