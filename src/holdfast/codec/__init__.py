"""Typed arguments and results <-> JSON. What is given arrives, in value and in type, or is refused."""
