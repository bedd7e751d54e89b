"""Schedules: declared in code or stored on request, their scopes, and the planner that fires them."""
