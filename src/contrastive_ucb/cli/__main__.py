"""`python -m contrastive_ucb.cli` is the command `cucb`."""

import sys

from contrastive_ucb.cli import main

if __name__ == "__main__":
    sys.exit(main())
