"""Holdfast beside other job systems on Postgres: same server, jobs, concurrency and durability."""
