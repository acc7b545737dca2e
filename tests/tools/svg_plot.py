"""Line charts as SVG text: a few panels side by side, one colour a series."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

COLOURS = ("#c2571a", "#2a6f97", "#5a7d2a", "#7a4fa0")
WIDTH, HEIGHT, MARGIN = 460, 320, 56


@dataclass(frozen=True)
class Series:
    """A named line."""

    name: str
    points: tuple[tuple[float, float], ...]


def plot(panels: Mapping[str, Sequence[Series]], *, x: str, y: str) -> str:
    """An SVG with a linear chart for each panel, axes from zero."""
    total = WIDTH * len(panels)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total} {HEIGHT}" '
        f'width="{total}" height="{HEIGHT}" font-family="system-ui, sans-serif" font-size="12">',
        f'<rect width="{total}" height="{HEIGHT}" fill="#fbfaf7"/>',
    ]
    for index, (title, series) in enumerate(panels.items()):
        parts.append(f'<g transform="translate({index * WIDTH} 0)">')
        parts += _panel(title, series, x, y)
        parts.append("</g>")
    return "\n".join([*parts, "</svg>", ""])


def _panel(title: str, series: Sequence[Series], x: str, y: str) -> list[str]:
    x_max = max(px for s in series for px, _ in s.points) or 1
    y_max = max(py for s in series for _, py in s.points) * 1.08 or 1
    wide, high = WIDTH - MARGIN - 24, HEIGHT - 2 * MARGIN
    bottom = HEIGHT - MARGIN

    def at(px: float, py: float) -> tuple[float, float]:
        return MARGIN + px / x_max * wide, bottom - py / y_max * high

    parts = [f'<text x="{MARGIN}" y="26" font-size="14">{escape(title)} … {escape(x)}</text>']
    for step in range(5):
        value_y, value_x = y_max * step / 4, x_max * step / 4
        _, line_y = at(0, value_y)
        line_x, _ = at(value_x, 0)
        parts += [
            f'<path d="M{MARGIN} {line_y:.1f}h{wide}" stroke="#ddd8cc"/>',
            f'<text x="{MARGIN - 6}" y="{line_y + 4:.1f}" text-anchor="end">{value_y:.3g}</text>',
            f'<text x="{line_x:.1f}" y="{bottom + 18}" text-anchor="middle">{value_x:.0f}</text>',
        ]
    parts.append(f'<text x="{MARGIN - 6}" y="{MARGIN - 10}" text-anchor="end">{escape(y)}</text>')
    for number, line in enumerate(series):
        colour = COLOURS[number % len(COLOURS)]
        spots = [at(*point) for point in line.points]
        path = " ".join(f"{px:.1f},{py:.1f}" for px, py in spots)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{colour}"/>' for a, b in spots]
        parts.append(
            f'<text x="{MARGIN + 90 * number}" y="44" fill="{colour}">{escape(line.name)}</text>'
        )
    return parts
