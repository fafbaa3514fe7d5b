"""Draws a check's value over the days, small enough to be stored with every result.

Nothing of Dagster and no reading of history belongs here.
"""

import base64
import math
from collections.abc import Mapping
from datetime import date
from typing import Final

_WIDTH: Final = 560
_HEIGHT: Final = 140
_LEFT: Final = 56
_TOP: Final = 12
_BOTTOM: Final = 112


def picture(name: str, history: Mapping[date, float], limit: float) -> str:
    """The value by day against its limit: Markdown with an SVG of about 2 kB inside.

    Args:
        name: the check's name, for readers without pictures.
        history: at least one day's value; values that are no number are left out.
        limit: the greatest value that passes.
    """
    drawn = {day: history[day] for day in sorted(history) if math.isfinite(history[day])}
    greatest = max([*drawn.values(), limit, 0.0])
    least = min([*drawn.values(), limit, 0.0])
    span = (greatest - least) or 1.0

    def y(value: float) -> float:
        return round(_BOTTOM - (value - least) / span * (_BOTTOM - _TOP), 1)

    step = (_WIDTH - _LEFT - 12) / max(len(drawn) - 1, 1)
    points = [(round(_LEFT + index * step, 1), y(value)) for index, value in enumerate(drawn.values())]
    line = " ".join(f"{x},{height}" for x, height in points)
    dots = "".join(
        f'<circle cx="{x}" cy="{height}" r="3"><title>{day}: {value:.4g}</title></circle>'
        for (x, height), (day, value) in zip(points, drawn.items(), strict=True)
    )
    days = list(drawn) or [date.min]
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" font-family="sans-serif" '
        f'font-size="11"><rect width="100%" height="100%" fill="#fff"/>'
        f'<line x1="{_LEFT}" x2="{_WIDTH - 8}" y1="{y(limit)}" y2="{y(limit)}" stroke="#d97706" '
        f'stroke-dasharray="5 3"/><g fill="#555"><text x="4" y="{y(limit) + 4}" fill="#b45309">≤ {limit:.4g}</text>'
        f'<text x="{_LEFT}" y="{_HEIGHT - 8}">{days[0]}</text>'
        f'<text x="{_WIDTH - 8}" y="{_HEIGHT - 8}" text-anchor="end">{days[-1]}</text>'
        f'<text x="4" y="{y(greatest) + 4 if greatest != limit else y(least) + 4}">'
        f"{greatest if greatest != limit else least:.4g}</text></g>"
        f'<polyline points="{line}" fill="none" stroke="#4f46e5" stroke-width="1.5"/><g fill="#4f46e5">{dots}</g></svg>'
    )
    return f"![{name} by day](data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()})"
