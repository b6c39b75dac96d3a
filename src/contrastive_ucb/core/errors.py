"""Errors for the user."""


class UserError(ValueError):
    """An error that the user can correct; the message is one line and contains the remedy.

    The command line prints it, like every ValueError, ArithmeticError and OSError, as one line and
    exits with code 2; `--debug` prints the traceback.
    """


class DamageError(UserError):
    """A file that does not have the content that was written.

    problem  the message without the remedy
    """

    def __init__(self, problem: str, remedy: str):
        super().__init__(f"{problem}; {remedy}")
        self.problem = problem


class EnvironmentFault(UserError):
    """A user's environment raised an exception or returned a wrong value.

    The message names the environment, the step and the episode. An agent to which this happens
    keeps the state from before the step, so it can be saved and continued.
    """
