"""Claims of the paper, measured and compared with their targets. `cucb verify` runs them."""
