"""Durable functions: work that resumes where it stopped, on the same jobs, leases and ledger."""
