"""Measurements against peers, as ratios within one run. They inform; no test depends on a time."""
