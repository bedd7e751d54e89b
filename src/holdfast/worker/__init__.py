"""Running jobs: fetch, attempt, settle, keep leases, and lead the chores."""
