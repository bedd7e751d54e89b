"""Decisions as pure functions over values: no event loop, no SQL, no logging, no clock."""
