"""Child processes for handlers that must be stoppable, or that would hold the interpreter for too long."""
