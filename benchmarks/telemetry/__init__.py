"""What metrics and tracing cost: `make bench-telemetry`."""
