"""Pictures of multiplicity: one strip for each operator, one bar for each instance, suspects marked."""

from __future__ import annotations

import html
import math
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from whence.debug.mining.mined import InstanceSummary, Mined

_PLAIN, _SUSPECT, _ASIDE = "#5b7083", "#c0392b", "#c9d2d9"


def plot(mined: Mined, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".html":
        path.write_text(f"<!doctype html><meta charset=utf-8><title>Suspects</title>{to_html(mined)}", encoding="utf-8")
    elif path.suffix == ".png":
        _to_png(mined, path)
    else:
        raise ValueError(f"A plot is written as .html or .png, not as {path.name!r}.")
    return path


def _operators(mined: Mined) -> dict[str, list[InstanceSummary]]:
    groups: dict[str, list[InstanceSummary]] = {}
    for instance in mined.instances:
        groups.setdefault(instance.operator, []).append(instance)
    return groups


def _height(value: float, most: float, full: float) -> float:
    return full * math.log1p(value) / max(math.log1p(most), 1e-9)  # counts range from 1 to thousands


def to_html(mined: Mined) -> str:
    suspects = {(s.operator, s.instance): s for s in mined.suspects}
    strips = []
    for operator, instances in _operators(mined).items():
        most = max(i.most for i in instances)
        bars = []
        for n, i in enumerate(instances):
            suspect = suspects.get((i.operator, i.instance))
            color = _SUSPECT if suspect else _PLAIN if i.considered else _ASIDE
            x, mean, top = n * 22 + 4, _height(i.mean, most, 70), _height(i.most, most, 70)
            tip = f"{i.instance}: {i.inputs} inputs, mean {i.mean:.3g}, most {i.most}"
            if suspect:
                tip += "; " + "; ".join(suspect.reasons)
            bars.append(
                f'<g><title>{html.escape(tip)}</title><rect x="{x}" y="{80 - mean:.1f}" width="14" height="{mean:.1f}" '
                f'fill="{color}"/><path d="M{x + 7} {80 - mean:.1f}V{80 - top:.1f}M{x + 2} {80 - top:.1f}h10" '
                f'stroke="{color}" fill="none"/></g>'
            )
        strips.append(
            f"<figure><figcaption>{html.escape(operator)} <small>most {most}</small></figcaption>"
            f'<svg width="{len(instances) * 22 + 8}" height="84" role="img">{"".join(bars)}</svg></figure>'
        )
    rows = "".join(
        f"<tr><td>{n}</td><td>{html.escape(s.operator)}</td><td>{html.escape(s.instance)}</td><td>{s.score:.1f}</td>"
        f"<td>{html.escape('; '.join(s.reasons))}</td>"
        f"<td>{html.escape(', '.join(f'{r!r} ({c})' for r, c in s.inputs[:3]))}</td></tr>"
        for n, s in enumerate(mined.suspects, 1)
    )
    return (
        "<style>.whence-mine{font:14px system-ui;color:#222}"
        ".whence-mine figure{display:inline-block;margin:8px 16px 8px 0}"
        ".whence-mine td,.whence-mine th{padding:2px 10px;text-align:left}</style><div class=whence-mine>"
        f"<h3>{len(mined.suspects)} suspects among {len(mined.instances)} instances</h3>"
        "<p>Bars: mean outputs of an input; whiskers: the most; red: suspect; pale: baseline only. Logarithmic.</p>"
        f"{''.join(strips)}<table><tr><th></th><th>operator</th><th>instance</th><th>score</th><th>why</th>"
        f"<th>inputs that stand out</th></tr>{rows}</table></div>"
    )


def _to_png(mined: Mined, path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    groups = _operators(mined)
    suspects = {(s.operator, s.instance) for s in mined.suspects}
    columns = min(4, max(1, len(groups)))
    rows = -(-len(groups) // columns) or 1
    figure = Figure(figsize=(4 * columns, 2.4 * rows))
    FigureCanvasAgg(figure)
    for n, (operator, instances) in enumerate(groups.items(), 1):
        axes = figure.add_subplot(rows, columns, n)
        colors = [
            _SUSPECT if (i.operator, i.instance) in suspects else _PLAIN if i.considered else _ASIDE for i in instances
        ]
        axes.bar(range(len(instances)), [i.mean for i in instances], color=colors)
        axes.scatter(range(len(instances)), [i.most for i in instances], color=colors, marker="_", s=120)
        axes.set_yscale("symlog")
        axes.set_title(operator, fontsize=8)
        axes.tick_params(labelsize=7)
    figure.supylabel("outputs of an input: mean (bar), most (line)", fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
