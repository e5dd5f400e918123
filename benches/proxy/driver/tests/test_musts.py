import unittest

from driver import workloads
from driver.figures import Figures
from driver.musts import MUSTS, Must, judge
from driver.report import musts_table, report


def record(work, peer, **figures):
    told = {"requests_per_second": 1.0, "latency_us": {"p50": 1.0, "p99": 2.0}, "errors": 0,
            "connections": 1, "resumed": 0}
    return {"work": work, "peer": peer, "round": 0, "foreign": 0.0, "generator": told, **figures}


def verdict(must, *records):
    return judge(must, Figures(records))


class Verdicts(unittest.TestCase):
    def test_a_figure_is_held_against_a_peer(self):
        must = Must("forwarded", 0.75, 0.5, ("haproxy",))
        for ours, reached in ((5, "aim"), (5.1, "must"), (7.5, "must"), (7.6, "missed")):
            said = verdict(must, record("forwarded", "courtesy", cpu_us=ours),
                           record("forwarded", "haproxy", cpu_us=10))
            self.assertEqual((said.reached, said.peer), (reached, "haproxy"))
            self.assertEqual(said.holds, reached != "missed")

    def test_of_several_the_best_counts(self):
        must = Must("tunnel", 0.6, 0.4, ("ats", "squid"))
        said = verdict(must, *(record("tunnel", peer, cpu_s_per_gib=value)
                               for peer, value in (("courtesy", 0.5), ("ats", 2.0), ("squid", 1.0))))
        self.assertEqual((said.peer, said.ratio.median, said.reached), ("squid", 0.5, "must"))

    def test_without_a_peer_the_figure_itself_counts(self):
        must = Must("idle", 10, 6)
        for ours, reached in ((6, "aim"), (10, "must"), (10.5, "missed")):
            self.assertEqual(verdict(must, record("idle", "courtesy", kib=ours)).reached, reached)

    def test_other_work_of_ours_may_be_the_measure(self):
        must = Must("denied", 1.2, 0.8, than="forwarded")
        said = verdict(must, record("denied", "courtesy", cpu_us=12),
                       record("forwarded", "courtesy", cpu_us=10))
        self.assertEqual(said.reached, "must")

    def test_what_was_not_measured_is_not_reached(self):
        for must in MUSTS:
            self.assertFalse(verdict(must).holds, must)
        alone = verdict(Must("forwarded", 0.75, 0.5, ("haproxy",)), record("forwarded", "courtesy", cpu_us=1))
        self.assertEqual(alone.reached, "not measured")


class Table(unittest.TestCase):
    def test_every_must_is_about_work_that_its_peers_do_in_a_quick_run(self):
        for must in MUSTS:
            work = workloads.ALL[must.work]
            self.assertLessEqual(set(must.peers), set(work.peers), must)
            self.assertIn(must.than, {None, *workloads.ALL})
            self.assertLess(must.aim, must.must)

    def test_it_has_a_row_for_each_must(self):
        text = musts_table([verdict(must) for must in MUSTS])
        self.assertEqual(len(text.splitlines()), len(MUSTS) + 2)
        self.assertEqual(text.count("not measured"), len(MUSTS))

    def test_a_report_has_the_work_that_was_measured(self):
        records = [record("forwarded", "courtesy", cpu_us=7), record("idle", "courtesy", kib=3.0)]
        meta = {"mode": "quick", "took_s": 1.0, "cpus": 2, "processor": "any", "kernel": "6"}
        figures = Figures(records)
        text = report(meta, figures, [judge(must, figures) for must in MUSTS], ["a note"])
        self.assertIn("## forwarded", text)
        self.assertIn("## idle:", text)
        self.assertNotIn("## tunnel", text)
        self.assertIn("note: a note", text)


if __name__ == "__main__":
    unittest.main()
