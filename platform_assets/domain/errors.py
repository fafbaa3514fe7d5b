"""The error that the domain raises for what a user must correct; bad rows are never raised, but counted."""


class FeedbackError(Exception):
    """One line that says what is wrong and what to do about it."""
