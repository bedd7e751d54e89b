"""How many worker processes share a limit, and how many slots each of them has."""

PROCESSES = 4
SLOTS = 20
