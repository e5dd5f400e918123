"""What courtesy must reach beside its peers, and what it aims at: the table that a run ends with."""

from dataclasses import dataclass

from .figures import Ratio
from .peers import OURS, SEALED, TRANSPARENT
from .workloads import ALL

AIM, MUST, MISSED, UNKNOWN = "aim", "must", "missed", "not measured"


@dataclass(frozen=True)
class Must:
    """A bound on a figure of a kind of work: on its ratio to a peer (to the best of them, if several), to
    ours in work (`than`), or, without either, on the figure itself. `who` is what is judged: ours, or ours by
    another way."""

    work: str
    must: float
    aim: float
    peers: tuple = ()
    than: str | None = None
    who: str = OURS


@dataclass(frozen=True)
class Verdict:
    """What came of a must."""

    must: Must
    peer: str
    ours: float | None
    theirs: float | None
    ratio: Ratio | None
    reached: str

    @property
    def holds(self):
        return self.reached in (AIM, MUST)


MUSTS = [
    Must("forwarded", 0.75, 0.65, ("haproxy",)),
    Must("forwarded", 1.2, 1.0, ("nginx-ka",)),
    Must("origins", 0.75, 0.6, ("nginx",)),
    Must("one", 1.15, 1.0, ("hyper",)),
    Must("connections", 0.9, 0.75, ("ats",)),
    Must("large", 1.1, 0.8, ALL["large"].peers),
    Must("tunnel", 0.6, 0.4, ALL["tunnel"].peers),
    Must("intercepted", 0.65, 0.5, ("hudsucker",)),
    Must("first-contact", 1.0, 0.85, ("hudsucker-nodelay",)),
    Must("known-host", 1.0, 0.8, ("hudsucker-nodelay",)),
    Must("resumed", 1.0, 0.8, ("hudsucker-nodelay",)),
    Must("idle", 10, 6),
    Must("idle-intercepted", 0.6, 0.5, ("hudsucker",)),
    Must("denied", 1.2, 0.8, than="forwarded"),
    *(Must(work, 1.1, 1.0, than=work, who=who)
      for work in ("forwarded", "connections", "intercepted") for who in (TRANSPARENT, SEALED)),
]


def judge(must, figures):
    """Holds the figures of a run against a must."""
    figure = ALL[must.work].figure
    own = figures.median(must.work, must.who, figure)
    if must.than:
        work, peer = must.than, OURS
    else:
        work, peer = must.work, figures.least(must.work, must.peers, figure)
    if peer is None:
        reached = grade(None if must.peers else own, must)
        return Verdict(must, "", own, None, None, reached)
    ratio = figures.ratio(figure, (must.work, must.who), (work, peer))
    reached = grade(ratio and ratio.median, must)
    return Verdict(must, peer, own, figures.median(work, peer, figure), ratio, reached)


def grade(value, must):
    if value is None:
        return UNKNOWN
    if value <= must.aim:
        return AIM
    return MUST if value <= must.must else MISSED
