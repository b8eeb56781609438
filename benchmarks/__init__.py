"""How fast the course's code is, as ratios of runs measured side by side in one session."""
