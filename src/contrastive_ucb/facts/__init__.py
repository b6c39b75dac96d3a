"""Facts of the theory: what the paper claims, measured. `cucb verify` runs them."""
