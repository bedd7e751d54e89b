"""What the leader does, each chore in a loop of its own, all harmless under two leaders."""
