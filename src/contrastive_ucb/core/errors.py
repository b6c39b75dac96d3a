"""The errors whose message is meant for the user."""


class UserError(ValueError):
    """Something the user can put right; the message is one line that says how.

    The command line prints it, like every ValueError, ArithmeticError and OSError, as one line and
    leaves with exit code 2; `--debug` shows where it came from.
    """
