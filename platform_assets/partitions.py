"""The partitions that assets are cut into: days of arrival.

Replaying a day reads the same landed files; when something happened is the column `created_at`.
"""

from datetime import date
from typing import Final

import dagster as dg

from platform_assets.domain.errors import FeedbackError

FIRST_DAY: Final = "2025-01-01"
"""No feedback can have arrived before it; an earlier day would only lengthen every list in the UI."""

ARRIVAL_DAYS: Final = dg.DailyPartitionsDefinition(start_date=FIRST_DAY, end_offset=1)
"""One partition a day in UTC; the end offset makes today one of them."""


def check_day(day: date, known: dg.DailyPartitionsDefinition = ARRIVAL_DAYS) -> str:
    """The partition key of `day`.

    Raises:
        FeedbackError: the day is no partition.
    """
    key = day.isoformat()
    if not known.has_partition_key(key):
        raise FeedbackError(f"unknown partition {key}: days run from {FIRST_DAY} to {known.get_last_partition_key()}")
    return key
