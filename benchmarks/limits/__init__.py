"""What limits cost, beside the same jobs without."""
