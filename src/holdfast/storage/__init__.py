"""Every question asked of our tables and every change to them: functions that return statements, no I/O."""
