"""How an error that only a person can mend ends a step of an asset or a check."""

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from platform_assets.domain.errors import FeedbackError
from resources.errors import ConfigurationError
from resources.triton import ModelContractError


@contextmanager
def clear_failures() -> Iterator[None]:
    """End the step at once, with the error's one line, where trying again cannot help."""
    try:
        yield
    except (FeedbackError, ConfigurationError, ModelContractError) as error:
        raise dg.Failure(description=str(error), allow_retries=False) from error
