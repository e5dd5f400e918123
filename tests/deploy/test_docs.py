"""The pages: what they lead to is there."""

import re

from support import ROOT, Case

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


def headings(page):
    """The anchors that a page's headings get."""
    texts = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in texts}
