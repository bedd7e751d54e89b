"""Flows beside other systems for durable functions, and beside the least that a checkpoint can cost."""
