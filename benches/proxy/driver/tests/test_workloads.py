import unittest
from pathlib import Path

from driver import workloads
from driver.peers import OURS, peers
from driver.workloads import ALL, QUICK, WAYS, takers

EVERYBODY = peers(Path("tools"), Path("courtesy"), {"before": Path("before")})


def taken(name, **more):
    return {peer.name for peer in takers(ALL[name], EVERYBODY.values(), **{"full": False, **more})}


class Takers(unittest.TestCase):
    def test_a_quick_run_has_who_is_named_and_every_build_of_ours(self):
        self.assertEqual(taken("forwarded"), {"haproxy", "nginx-ka", *WAYS, OURS, "before"})
        self.assertEqual(taken("forwarded", also=["squid"]), {"haproxy", "nginx-ka", "squid", *WAYS, OURS, "before"})

    def test_a_full_run_has_everybody_who_can(self):
        self.assertIn("tcp-forwarder", taken("forwarded", full=True))
        self.assertNotIn("tcp-forwarder", taken("origins", full=True))
        self.assertNotIn("haproxy", taken("intercepted", full=True))

    def test_every_build_of_ours_is_ours_and_nobody_else(self):
        self.assertEqual({peer.name for peer in EVERYBODY.values() if peer.is_ours}, {OURS, "before"})

    def test_only_ours_decides(self):
        self.assertEqual(taken("denied", full=True), {OURS, "before"})

    def test_who_failed_in_a_role_is_left_out_of_it(self):
        squid = peers(Path("tools"), Path("courtesy"), {})["squid"]
        squid.failed["tunnel"] = "why"
        self.assertFalse(squid.can("tunnel"))
        self.assertTrue(squid.can("plain"))

    def test_every_name_is_that_of_a_peer(self):
        for work in ALL.values():
            for name in work.peers:
                self.assertTrue(EVERYBODY[name].can(work.role), (work.name, name))


class Options(unittest.TestCase):
    def test_all_work_asks_for_something(self):
        for work in ALL.values():
            self.assertIn("--target", work.options(QUICK, EVERYBODY[OURS]), work.name)

    def test_nobody_is_met_for_the_first_time_twice(self):
        peer = EVERYBODY["hudsucker-nodelay"]
        first, second = (workloads.new_hosts(QUICK, peer)[-1] for _ in range(2))
        self.assertIn(f"h{{{workloads.NEW_FROM}..{workloads.NEW_FROM + QUICK.hosts - 1}}}", first)
        self.assertIn(f"h{{{workloads.NEW_FROM + QUICK.hosts}..", second)


if __name__ == "__main__":
    unittest.main()
