"""The HTML page of a report: one file, no scripts, no outside resources; the plot is inline SVG."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from whence.debug.diagnose.trees import Node

if TYPE_CHECKING:
    from whence.debug.diagnose.report import Report

_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;color:#1d2433;background:#fafbfc;margin:0}
main{max-width:1040px;margin:0 auto;padding:28px 24px}
h1{font-size:22px;margin:0 0 4px}h2{font-size:17px;margin:30px 0 8px}
.cause{background:#fff;
border:1px solid #dfe3ea;border-left:5px solid #b3261e;border-radius:6px;padding:12px 16px;margin:12px 0}
.cause.consistent{border-left-color:#c98a00}.cause p{margin:4px 0}.when{font-size:17px;font-weight:600}
.badge{font-size:12px;
font-weight:600;border-radius:9px;padding:1px 9px;background:#fde7e5;color:#8c1d18;margin-left:8px}
.consistent .badge{background:#fdf1d8;color:#7a5400}
code{background:#eef1f5;border-radius:3px;padding:0 4px}.muted{color:#5b6475}
table{border-collapse:collapse;width:100%;font-size:13px;background:#fff}
th,td{border-bottom:1px solid #e6e9ef;padding:4px 8px;text-align:left;white-space:nowrap}
th{position:sticky;top:0;background:#f1f3f7}
.scroll{overflow:auto;max-height:420px;border:1px solid #dfe3ea;border-radius:6px}
.fail{color:#b3261e;font-weight:600}.ok{color:#1b6e3c}
.tree ul{list-style:none;padding-left:20px;border-left:1px solid #d3d8e2;margin:2px 0}.tree li{margin:2px 0}
svg{background:#fff;border:1px solid #dfe3ea;border-radius:6px;max-width:100%}
"""


def page(report: Report) -> str:
    from whence.debug.diagnose.report import in_words

    causes = "".join(
        f'<div class="cause {c.status}"><p><span class="when">It fails when {escape(in_words(c, report.space))}.</span>'
        f'<span class="badge">{c.status}</span></p>'
        + "".join(f"<p>{escape(sentence)}</p>" for sentence in report.sentences(c))
        + f"<p class='muted'><code>{escape(str(c))}</code></p></div>"
        for c in report.causes
    )
    return (
        "<!doctype html><html lang='en'><head><meta charset='utf-8'><title>whence: diagnosis</title>"
        f"<meta name='viewport' content='width=device-width'><style>{_STYLE}</style></head><body><main>"
        f"<h1>Why it fails</h1><p class='muted'>{escape(report.headline())}</p>{causes}"
        f"<h2>The search</h2>{_plot(report)}"
        f"<h2>Decision tree of the runs</h2><div class='tree'>{_tree(report.tree, report)}</div>"
        f"<h2>Runs</h2>{_table(report)}</main></body></html>"
    )


def _plot(report: Report) -> str:
    """Runs over time as marks; hypotheses left and what the next run was expected to tell, as lines."""
    width, height, left, top = 980, 230, 46, 22
    count = max(1, len(report.runs))
    most = max((h for _, _, h in report.progress), default=1)

    def x(i: float) -> float:
        return left + (width - left - 12) * (i + 0.5) / count

    def y(bits: float) -> float:
        return top + (height - top - 50) * (1 - min(1.0, bits))

    marks = "".join(
        f"<rect x='{x(i) - 1.5:.1f}' y='{height - 40 if run.succeeded else height - 28}' width='3' height='10' "
        f"fill='{'#1b6e3c' if run.succeeded else '#b3261e'}'><title>run {i}</title></rect>"
        for i, run in enumerate(report.runs)
    )
    bits = " ".join(f"{x(i):.1f},{y(b):.1f}" for i, b, _ in report.progress)
    hypotheses = " ".join(f"{x(i):.1f},{y(h / most):.1f}" for i, _, h in report.progress)
    grid = "".join(
        f"<line x1='{left}' x2='{width - 12}' y1='{y(b):.1f}' y2='{y(b):.1f}' stroke='#e6e9ef'/>"
        f"<text x='{left - 6}' y='{y(b) + 4:.1f}' text-anchor='end' font-size='11' fill='#c26a00'>{b * most:.0f}</text>"
        f"<text x='{width - 2}' y='{y(b) - 3:.1f}' text-anchor='end' font-size='11' fill='#2457a6'>{b:g}</text>"
        for b in (0, 0.5, 1)
    )
    legend = (
        f"<text x='{left}' y='{height - 4}' font-size='11' fill='#5b6475'>{len(report.runs)} runs: green succeeded, "
        "red failed. <tspan fill='#c26a00'>Orange: different hypotheses left.</tspan> <tspan fill='#2457a6'>Blue: bits "
        "that the next run was expected to tell (0: they agree).</tspan></text>"
    )
    return (
        f"<svg viewBox='0 0 {width} {height}' width='{width}' height='{height}' role='img' "
        f"aria-label='Hypotheses left, and what each run was expected to tell'>{grid}"
        f"<polyline class='hypotheses' points='{hypotheses}' fill='none' stroke='#c26a00' stroke-width='1.6'/>"
        f"<polyline class='bits' points='{bits}' fill='none' stroke='#2457a6' stroke-width='1.2'/>{marks}{legend}</svg>"
    )


def _tree(node: Node, report: Report) -> str:
    from whence.debug.diagnose.report import split_in_words

    if node.yes is None or node.no is None:
        style = "fail" if node.outcome == "fail" else "ok" if node.outcome == "succeed" else "muted"
        count = node.failed + node.succeeded
        return f"<span class='{style}'>{node.outcome}</span> <span class='muted'>({count} runs)</span>"
    return (
        f"<code>{escape(split_in_words(node, report.space))}</code><ul><li>yes: {_tree(node.yes, report)}</li>"
        f"<li>no: {_tree(node.no, report)}</li></ul>"
    )


def _table(report: Report) -> str:
    names = report.space.names
    head = "".join(f"<th>{escape(n)}</th>" for n in names)
    rows = "".join(
        f"<tr><td>{i}</td><td class='{'ok' if run.succeeded else 'fail'}'>"
        + f"{'succeeded' if run.succeeded else 'failed'}</td>"
        + "".join(f"<td>{escape(str(run.config[n]))}</td>" for n in names)
        + f"<td>{escape(run.source)}{': ' + escape(run.purpose) if run.purpose else ''}</td>"
        + f"<td>{'' if run.seconds is None else f'{run.seconds:.2f} s'}</td>"
        + f"<td>{escape(run.error or '')[:120]}</td></tr>"
        for i, run in enumerate(report.runs)
    )
    return (
        f"<div class='scroll'><table><thead><tr><th>run</th><th>outcome</th>{head}<th>why it was made</th><th>time</th>"
        f"<th>error</th></tr></thead><tbody>{rows}</tbody></table></div>"
    )
