"""Errors for the user."""


class UserError(ValueError):
    """An error that the user can correct; the message is one line and contains the remedy.

    The command line prints it, like every ValueError, ArithmeticError and OSError, as one line and
    exits with code 2; `--debug` prints the traceback.
    """
