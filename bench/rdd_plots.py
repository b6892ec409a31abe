"""One picture for each of the paper's figures 13 to 18: ours beside what it reports.

The paper's numbers are read off its text and table 2, at its smallest size (500 MB for grep and word count, 1 GB for
PigMix), on 16 machines, Spark 1.2, Scala. They say where Titian stood, not how fast our machine is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

# Times plain Spark (table 2 and section 5.2)
CAPTURE = {
    "word count": {"Titian-D": 1.18, "RAMP": 1.34, "Newt": 1.72},
    "grep": {"Titian-D": 1.27, "RAMP": 1.40, "Newt": 1.58},
    "L2": {"Titian-D": 1.26},
    "L3": {"Titian-D": 1.26},
    "L6": {"Titian-D": 1.2},
    "L7": {"Titian-D": 1.26},
    "L11": {"Titian-D": 1.26},
}
# Seconds to trace one record back (section 5.3)
TRACE = {"grep": 0.07, "word count": 0.08, "L2": 0.1, "L6": 0.25, "L7": 0.13}
RETRIEVE = 1.0  # seconds, "less than one second" below 70 GB (section 5.4)

Found = Mapping[tuple[str, int], Mapping[str, float]]


def draw(found: Found, limit: float, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    sizes = sorted({size for _, size in found})
    names = list(dict.fromkeys(name for name, _ in found))
    big = sizes[-1]
    texts = [n for n in names if n in ("word count", "grep")]
    pigs = [n for n in names if n not in texts]
    figure, axes = pyplot.subplots(2, 3, figsize=(14, 7.5))

    def ours(kind: str, some: Sequence[str], size: int) -> list[float]:
        return [found[n, size].get(kind, float("nan")) if (n, size) in found else float("nan") for n in some]

    def bars(ax: Any, some: Sequence[str], series: Mapping[str, Sequence[float]], title: str, unit: str) -> None:
        width = 0.8 / max(1, len(series))
        for turn, (label, values) in enumerate(series.items()):
            ax.bar([i - 0.4 + width * (turn + 0.5) for i in range(len(some))], values, width, label=label)
        ax.set_xticks(range(len(some)), some)
        ax.set_title(title, loc="left", fontsize=9)
        ax.set_ylabel(unit)
        ax.legend(fontsize=7)

    captured = {f"whence, {s} MB": ours("ratio", texts, s) for s in sizes}
    captured[f"whence propagated, {sizes[0]} MB"] = ours("propagated", texts, sizes[0])
    for other in ("Titian-D", "RAMP", "Newt"):
        captured[other] = [CAPTURE[n][other] for n in texts]
    bars(axes[0][0], texts, captured, "Figure 13: capture, text", "times plain")
    pig = {f"whence, {s} MB": ours("ratio", pigs, s) for s in sizes}
    pig["Titian-D (at most)"] = [CAPTURE[n]["Titian-D"] for n in pigs]
    bars(axes[0][1], pigs, pig, "Figure 14: capture, PigMix", "times plain")
    for ax in (axes[0][0], axes[0][1]):
        ax.axhline(limit, color="black", linewidth=0.8, linestyle="--")
    plans = {
        "look-up": [found["word count", s]["warm"] for s in sizes if ("word count", s) in found],
        "job on the tables needed": [found["word count", s]["job"] for s in sizes if ("word count", s) in found],
        "all tables read": [found["word count", s]["naive"] for s in sizes if ("word count", s) in found],
    }
    bars(axes[0][2], [f"{s} MB" for s in sizes], plans, "Figure 15: ways to trace, word count", "seconds")
    axes[0][2].set_yscale("log")
    axes[0][2].set_ylim(bottom=0.001)
    for ax, some, title in (
        (axes[1][0], texts, "Figure 16: trace one record, text"),
        (axes[1][1], pigs, "Figure 17: trace one record, PigMix"),
    ):
        series = {f"whence, {s} MB, {w}": ours(w, some, s) for s in sizes for w in ("warm", "cold")}
        series["Titian-D"] = [TRACE.get(n, float("nan")) for n in some]
        bars(ax, some, series, title, "seconds")
        ax.set_yscale("log")
        ax.set_ylim(bottom=0.001)
    retrieved = {f"whence, {s} MB": ours("retrieve", names, s) for s in sizes}
    bars(axes[1][2], names, retrieved, "Figure 18: read one record", "seconds")
    axes[1][2].axhline(RETRIEVE, color="black", linewidth=0.8, linestyle="--", label="Titian: below")
    axes[1][2].set_yscale("log")
    axes[1][2].set_ylim(bottom=0.0001)
    figure.suptitle(f"RDD lineage beside the paper's figures 13 to 18 (largest size {big} MB)", x=0.01, ha="left")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
