"""The errors whose message is meant for the user."""


class UserError(ValueError):
    """Something the user can put right; the message is one line that says how.

    The command line prints the message alone and leaves with exit code 2; every other error is a
    defect of the program and keeps its traceback.
    """
