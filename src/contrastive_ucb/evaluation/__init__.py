"""How good a policy and a model are, exactly where a sum is possible."""
