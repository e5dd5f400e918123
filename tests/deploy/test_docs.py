"""The pages: what they lead to is there."""

import re

from support import COURTESY, ROOT, Case, read

# Named by the table of places, and not there yet.
PLACES_TO_COME = ["src/cli/NAME.rs", "src/pace/"]

PAGES = [page for folder in [".", "packaging/try", "systemd", "integrations/*"] for page in ROOT.glob(f"{folder}/*.md")]
PAGES += (ROOT / "docs").rglob("*.md")


class Pages(Case):
    def test_every_link_leads_somewhere(self):
        self.assertGreater(len(PAGES), 8)
        for page in PAGES:
            for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)]*))?\)", page.read_text()):
                if "://" in target:
                    continue
                file = page.parent / target if target else page
                self.assertTrue(file.exists(), f"{page.relative_to(ROOT)}: {target}")
                if anchor:
                    self.assertIn(anchor, headings(file), f"{page.relative_to(ROOT)}: {target}#{anchor}")

    def test_every_page_of_the_book_is_in_its_summary_once(self):
        summary = ROOT / "docs/SUMMARY.md"
        listed = [target for target in re.findall(r"\]\(([^)#\s]*)\)", summary.read_text())]
        self.assertEqual(len(listed), len(set(listed)))
        pages = {str(page.relative_to(summary.parent)) for page in summary.parent.rglob("*.md")}
        self.assertEqual(set(listed), pages - {"SUMMARY.md"})

    def test_the_summary_has_the_form_that_mdbook_reads(self):
        summary = ROOT / "docs/SUMMARY.md"
        for line in summary.read_text().splitlines():
            # As mdBook reads it: headings of parts, items, a prefix chapter.
            self.assertRegex(line, r"^(|# .*|( {2})*- \[[^]]+\]\([^)]+\.md\)|\[[^]]+\]\([^)]+\.md\))$")

    def test_the_readme_is_short(self):
        self.assertLessEqual(len(read("README.md").splitlines()), 150)

    def test_the_readme_begins_with_what_it_runs_on_and_both_commands(self):
        text = read("README.md")
        self.assertIn("Linux", text[:200])
        first = re.search(r"```console\n(.*?)```", text, re.DOTALL)[1].splitlines()
        self.assertEqual([line.split("#")[0].strip() for line in first],
                         ["$ cargo run --release -- demo", "$ tests/run"])

    def test_the_first_denial_waits_for_nothing_and_reads_no_notices(self):
        denial = re.search(r"## A first denial\n(.*?)\n## ", read("README.md"), re.DOTALL)[1]
        for cannot_be_relied_on in ["serve &", "jq ", "example.com/private"]:
            self.assertNotIn(cannot_be_relied_on, denial)
        commands = re.findall(r"^\$ (courtesy (?:[a-z]+ )+?)(?=--|$)", denial, re.MULTILINE)
        self.assertEqual(commands, ["courtesy run ", "courtesy audit query ", "courtesy audit verify "])
        for command in commands:
            self.succeed(COURTESY, *command.split()[1:], "--help")

    def test_what_the_table_of_places_names_exists(self):
        for path in re.findall(r"`((?:src|tests|config|deploy)/[^`*]*)`", read("docs/develop/where-to-change.md")):
            if path not in PLACES_TO_COME:
                self.assertTrue((ROOT / path).exists(), path)


def headings(page):
    """The anchors that a page's headings get."""
    texts = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in texts}
