"""Writes new jobs, one or many, and wakes the workers that can run them."""
