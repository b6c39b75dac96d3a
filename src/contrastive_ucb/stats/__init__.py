"""Statistics of scores: aggregates, bootstrap intervals, slopes and published scores."""
