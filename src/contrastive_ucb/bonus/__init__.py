"""The elliptical bonus of Algorithm 1 (lines 9-10) and its coefficients."""
