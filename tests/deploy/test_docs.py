"""The pages: what they lead to is there."""

import re

from support import ROOT, Case, read

# Named by the table of places, and not there yet.
PLACES_TO_COME = ["src/cli/NAME.rs", "src/pace/"]

PAGES = [page for folder in [".", "packaging/try", "systemd"] for page in (ROOT / folder).glob("*.md")]
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

    def test_what_the_table_of_places_names_exists(self):
        for path in re.findall(r"`((?:src|tests|config|deploy)/[^`*]*)`", read("docs/develop/where-to-change.md")):
            if path not in PLACES_TO_COME:
                self.assertTrue((ROOT / path).exists(), path)


def headings(page):
    """The anchors that a page's headings get."""
    texts = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in texts}
