"""What the leader does, each chore in a loop of its own. `holdfast.leader_chores` lists all of them."""
