"""What happens, as facts; logs, metrics and traces are their readers."""
