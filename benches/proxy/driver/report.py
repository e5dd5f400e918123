"""The figures as tables: each kind of work with all who did it, and at the end what must be reached."""

from statistics import median

from .musts import MISSED, UNKNOWN
from .peers import OURS
from .workloads import ALL, KIB, TITLES

FOOT = """\
Ratios are medians of the rounds' own ratios; in parentheses, the best round of each. `foreign`: the share
of the machine that other work took. Ratios hold on other machines, the figures themselves do not."""


def number(value):
    """Three digits, as people read them."""
    if value is None:
        return "–"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def ratio(value):
    return f"{value.median:.2f} ({value.best:.2f})" if value else "–"


def table(head, rows):
    """Markdown, the first column to the left and the others to the right."""
    cells = [[str(cell) for cell in row] for row in [head, *rows]]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]

    def line(row):
        rest = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:]))
        return "| " + " | ".join([row[0].ljust(widths[0]), *rest]) + " |"

    rule = "| " + " | ".join(["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]) + " |"
    return "\n".join([line(cells[0]), rule, *map(line, cells[1:])])


def work_table(work, figures):
    """Who did a kind of work, and what it cost; the cheapest first."""
    medians = {peer: figures.median(work.name, peer, work.figure) for peer in figures.peers(work.name)}
    ranked = sorted(medians, key=lambda peer: medians[peer] or 0)
    if work.figure == KIB:
        return table(["peer", TITLES[KIB]], [[peer, number(medians[peer])] for peer in ranked])
    rows = []
    for peer in ranked:
        records = figures.records(work.name, peer)
        values = figures.values(work.name, peer, work.figure).values()
        spread = f"[{number(min(values, default=None))} … {number(max(values, default=None))}]"
        told = [record["generator"] for record in records]
        resumed = sum(it["resumed"] for it in told) / sum(it["connections"] for it in told)
        rows.append([
            peer,
            f"{number(medians[peer])} {spread}",
            ratio(figures.ratio(work.figure, (work.name, OURS), (work.name, peer))),
            number(median(it["requests_per_second"] for it in told)),
            number(median(it["latency_us"]["p50"] for it in told)),
            number(median(it["latency_us"]["p99"] for it in told)),
            f"{resumed:.0%}" if resumed else "",
            sum(it["errors"] for it in told) or "",
            f"{max(record['foreign'] for record in records):.0%}",
        ])
    head = ["peer", f"{TITLES[work.figure]} [least … most]", "ours to it", "requests/s", "p50 µs",
            "p99 µs", "resumed", "errors", "foreign"]
    return table(head, rows)


def musts_table(verdicts):
    """What must be reached, and whether it is."""
    rows = []
    for it in verdicts:
        must, work = it.must, ALL[it.must.work]
        peer = it.peer or ("–" if not must.peers else "/".join(must.peers))
        if must.than:
            peer = f"{it.peer}, {ALL[must.than].name}"
        elif len(must.peers) > 1 and it.peer:
            peer = f"best: {it.peer}"
        unit = "" if must.peers or must.than else " KiB"
        word = {MISSED: "MISSED", UNKNOWN: UNKNOWN}.get(it.reached, f"{it.reached} met")
        title = work.title if must.who == OURS else f"{work.title}, {must.who}"
        rows.append([title, peer, TITLES[work.figure], number(it.ours), number(it.theirs),
                     ratio(it.ratio), f"≤ {must.must}{unit}", f"≤ {must.aim}{unit}", word])
    return table(["work", "peer", "figure", "courtesy", "peer's", "ratio", "must", "aim", ""], rows)


def report(meta, figures, verdicts, notes):
    """All of it, as text."""
    parts = [f"{meta['mode']} run of {meta['took_s']:.0f} s on {meta['cpus']} × {meta['processor']}, "
             f"Linux {meta['kernel']}"]
    for work in ALL.values():
        if figures.peers(work.name):
            parts.append(f"## {work.name}: {work.title}\n\n{work_table(work, figures)}")
    parts += ["## What must be reached\n\n" + musts_table(verdicts), FOOT]
    parts += [f"note: {note}" for note in notes]
    return "\n\n".join(parts)
