import unittest

from driver.figures import Figures


def record(peer, number, cpu_us, foreign=0.0, work="forwarded", **more):
    return {"work": work, "peer": peer, "round": number, "cpu_us": cpu_us, "foreign": foreign, **more}


def rounds(peer, *values, **more):
    return [record(peer, number, value, **more) for number, value in enumerate(values)]


def ratio(records, ours="a", theirs="b"):
    return Figures(records).ratio("cpu_us", ("forwarded", ours), ("forwarded", theirs))


class Ratios(unittest.TestCase):
    def test_a_ratio_is_taken_within_a_round(self):
        # The machine becomes half as fast after the first round: both notice.
        found = ratio(rounds("a", 10, 20, 20) + rounds("b", 20, 40, 40))
        self.assertEqual((found.median, found.best), (0.5, 0.5))

    def test_one_disturbed_round_does_not_spoil_it(self):
        found = ratio(rounds("a", 10, 90, 10) + rounds("b", 20, 20, 20))
        self.assertEqual(found.median, 0.5)

    def test_the_best_round_of_each_stands_beside_it(self):
        found = ratio(rounds("a", 10, 30, 30) + rounds("b", 20, 15, 30))
        self.assertEqual((found.median, found.best), (1.0, 10 / 15))

    def test_rounds_that_only_one_has_are_no_ratio(self):
        records = [record("a", 0, 10), record("a", 1, 10), record("b", 1, 5)]
        self.assertEqual(ratio(records).median, 2.0)
        self.assertIsNone(ratio([record("a", 0, 10), record("b", 1, 5)]))
        self.assertIsNone(ratio([record("a", 0, 10)]))

    def test_what_costs_nothing_is_no_measure(self):
        self.assertIsNone(ratio(rounds("a", 10, 10) + rounds("b", 0, 0)))


class Quiet(unittest.TestCase):
    def test_only_quiet_rounds_count_where_there_are_enough(self):
        records = rounds("a", 10, 11, 12) + [record("a", 3, 99, foreign=0.5)]
        self.assertEqual(Figures(records).median("forwarded", "a", "cpu_us"), 11)

    def test_otherwise_all_count(self):
        records = rounds("a", 10, 11) + [record("a", 2, 99, foreign=0.5)]
        self.assertEqual(Figures(records).median("forwarded", "a", "cpu_us"), 11)
        self.assertEqual(len(Figures(records).values("forwarded", "a", "cpu_us")), 3)


class Added(unittest.TestCase):
    def test_what_is_added_is_what_goes_beyond_the_straight_way(self):
        records = [record(peer, 0, 0, work="one", p50_us=value)
                   for peer, value in (("direct", 40), ("a", 70), ("b", 100))]
        figures = Figures(records)
        self.assertEqual(figures.values("one", "a", "added_us"), {0: 30})
        self.assertEqual(figures.ratio("added_us", ("one", "a"), ("one", "b")).median, 0.5)


class Best(unittest.TestCase):
    def test_the_best_has_the_smallest_median_of_those_that_were_measured(self):
        figures = Figures(rounds("a", 1, 9, 9) + rounds("b", 5, 5, 5) + rounds("c", 2, 2, 2))
        self.assertEqual(figures.least("forwarded", ("a", "b", "d"), "cpu_us"), "b")
        self.assertIsNone(figures.least("forwarded", ("d",), "cpu_us"))


if __name__ == "__main__":
    unittest.main()
