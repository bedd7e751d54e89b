"""Measures of the storage engine, as ratios within one run: `python -m benchmarks`, or `make bench`."""
