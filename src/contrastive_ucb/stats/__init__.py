"""From scores to statements: aggregates, bootstrap intervals, slopes and the published figures."""
