"""The elliptical bonus of Algorithm 1, l.9-10, and its coefficients."""
