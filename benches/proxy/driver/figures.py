"""From measurements to figures: medians, and ratios of two in the same round.

The speed of a machine drifts, and others use it: a ratio within a round is spoilt by that far less than
a ratio of medians.
"""

from dataclasses import dataclass
from statistics import median

from .workloads import ADDED_US

# A round counts if others used less of the machine than that, as long as so many rounds do.
QUIET, QUIET_ROUNDS = 0.25, 3


@dataclass(frozen=True)
class Ratio:
    """Ours to theirs: the median over the rounds, and of the best round of each. Contention only ever
    adds, so on a busy machine the second is the better guess."""

    median: float
    best: float


class Figures:
    """The records of a run by work and peer."""

    def __init__(self, records):
        self._records = {}
        for record in records:
            self._records.setdefault((record["work"], record["peer"]), []).append(record)

    def peers(self, work):
        return [peer for its, peer in self._records if its == work]

    def records(self, work, peer):
        """Of the quiet rounds, if there are enough of them."""
        records = self._records.get((work, peer), [])
        quiet = [record for record in records if record["foreign"] < QUIET]
        return quiet if len(quiet) >= QUIET_ROUNDS else records

    def values(self, work, peer, figure):
        """The figure in each round that has it."""
        if figure == ADDED_US:
            through = self.values(work, peer, "p50_us")
            straight = self.values(work, "direct", "p50_us")
            return {each: through[each] - straight[each] for each in through if each in straight}
        records = self.records(work, peer)
        return {record["round"]: record[figure] for record in records if record.get(figure) is not None}

    def median(self, work, peer, figure):
        values = self.values(work, peer, figure)
        return median(values.values()) if values else None

    def ratio(self, figure, ours, theirs):
        """Of the figure of two pairs of work and peer; none where there is no round that has both."""
        ours, theirs = self.values(*ours, figure), self.values(*theirs, figure)
        ratios = [ours[each] / theirs[each] for each in ours if theirs.get(each, 0) > 0]
        if not ratios:
            return None
        least = min(value for value in theirs.values() if value > 0)
        return Ratio(median(ratios), min(ours.values()) / least)

    def least(self, work, peers, figure):
        """Who of these has the smallest median."""
        medians = {peer: self.median(work, peer, figure) for peer in peers}
        known = {peer: value for peer, value in medians.items() if value is not None}
        return min(known, key=known.get, default=None)
