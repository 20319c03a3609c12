#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""
bench/report and bench/compare.sh on results.json beside this file: what a reader must find is there.

The pictures must be well-formed XML with a role, a title and a description; every plot has its numbers as a
table; every metric, claim, failed check and note is on the page; nothing is fetched from elsewhere.
"""
import json
import os
import re
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

HERE = os.path.dirname(os.path.abspath(__file__))
BENCH = os.path.join(HERE, "..", "..", "bench")
SAMPLE = os.path.join(HERE, "results.json")
SVG = "{http://www.w3.org/2000/svg}"
VOID = {"meta", "link", "br", "i"}


class Outline(HTMLParser):
    """Tables (rows of texts), all text, ids, and whether the tags match."""

    def __init__(self):
        super().__init__()
        self.open, self.tables, self.ids, self.text, self.mismatch = [], [], [], [], []

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if "id" in attrs:
            self.ids.append(attrs["id"])
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
        if tag not in VOID - {"i"}:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        if dict(attrs).get("id"):
            self.ids.append(dict(attrs)["id"])

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.mismatch.append((tag, self.getpos()))

    def handle_data(self, data):
        self.text.append(data)
        if "table" in self.open and self.open[-1] != "table" and self.tables[-1] and self.tables[-1][-1]:
            self.tables[-1][-1][-1] += data


def run(*command, ok=True):
    r = subprocess.run(command, capture_output=True, text=True, check=False)
    if ok and r.returncode:
        raise AssertionError(f"{command}: {r.returncode}\n{r.stdout}{r.stderr}")
    return r


class Report(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.tmp = tempfile.TemporaryDirectory(prefix="ext4d-test-report.")
        cls.out = os.path.join(cls.tmp.name, "report.html")
        cls.svg = os.path.join(cls.tmp.name, "svg")
        run(os.path.join(BENCH, "report"), SAMPLE, "--out", cls.out, "--svg", cls.svg)
        with open(cls.out, encoding="utf-8") as f:
            cls.html = f.read()
        with open(SAMPLE, encoding="utf-8") as f:
            cls.data = json.load(f)
        cls.outline = Outline()
        cls.outline.feed(cls.html)
        cls.plots = [p for x in cls.data["experiments"] for p in x["plots"]]

    @classmethod
    def tearDownClass(cls):
        cls.tmp.cleanup()

    def all_text(self):
        return re.sub(r"\s+", " ", "".join(self.outline.text))

    def test_tags_match_and_ids_are_unique(self):
        self.assertEqual(self.outline.mismatch, [])
        self.assertEqual(self.outline.open, [])
        self.assertEqual(len(self.outline.ids), len(set(self.outline.ids)))

    def test_nothing_is_fetched_and_no_script_runs(self):
        self.assertNotRegex(self.html, r"<script|\son\w+=|src=|@import|url\(")
        outside = set(re.findall(r'href="([^#"][^"]*)"', self.html))
        self.assertEqual({h for h in outside if not h.startswith("#")}, {"data:,"})

    def test_each_plot_is_drawn_for_wide_and_narrow_pages(self):
        pictures = [ET.fromstring(s) for s in re.findall(r"<svg .*?</svg>", self.html, flags=re.S)]
        self.assertEqual(len(pictures), 2 * len(self.plots))
        for picture, p in zip(pictures, [p for p in self.plots for _ in range(2)]):
            self.assertEqual(picture.get("role"), "img")
            self.assertEqual(picture.find(f"{SVG}title").text, p["title"])
            self.assertTrue(picture.find(f"{SVG}desc").text)
            labels = {t.text for t in picture.iter(f"{SVG}text")}
            for s in p["series"]:
                self.assertIn(s["label"], labels)
            self.assertNotIn("rgb(", ET.tostring(picture, encoding="unicode"))

    def test_each_series_of_a_picture_has_its_colour_and_its_marks(self):
        first = re.search(r"<svg .*?</svg>", self.html, flags=re.S).group(0)
        bars = [sum(1 for _, y in s["points"] if y > 0) for s in self.plots[0]["series"]]
        for i, count in enumerate(bars, 1):
            # one box for each bar and one in the key
            self.assertEqual(len(re.findall(rf'<polygon[^>]*f-c{i}"|<polygon class="f-c{i}"', first)), count + 1)

    def test_pictures_alone_are_xml_with_both_palettes(self):
        names = sorted(os.listdir(self.svg))
        self.assertEqual(len(names), len(self.plots))
        for name in names:
            root = ET.parse(os.path.join(self.svg, name)).getroot()
            self.assertIn("prefers-color-scheme:dark", root.find(f"{SVG}style").text)

    def test_each_plot_has_its_numbers_as_a_table(self):
        tables = self.outline.tables
        for p in self.plots:
            head = [p["x"]["label"] + (f" ({p['x']['unit']})" if p["x"]["unit"] else "")]
            unit = f", {p['y']['unit']}" if p["y"]["unit"] else ""
            head += [s["label"] + unit for s in p["series"]]
            found = [t for t in tables if t and t[0] == head]
            self.assertTrue(found, head)
            self.assertGreater(len(found[0]), 2)

    def test_the_table_of_a_plot_holds_its_values(self):
        table = next(t for t in self.outline.tables if t and t[0][0] == "request size (KiB)")
        self.assertEqual(table[1], ["4", "3", "512"])
        self.assertEqual(table[9], ["1024", "498", "420"])

    def test_results_stand_beside_the_published_figures(self):
        seed = next(t for t in self.outline.tables if t and "published: old" in t[0])
        self.assertEqual(seed[1], ["dd 8 KiB", "157 MB/s", "174 MB/s", "355 MB/s", "405 MB/s"])
        rows = [r for t in self.outline.tables for r in t]
        self.assertIn(["ext4d, old", "355", "351 … 360", "1.14×"], rows)
        self.assertIn(["fuse2fs", "< 40.5 stopped", "stopped after 10 times ext4d's 1.3 s", "–"], rows)

    def test_claims_checks_notes_and_failures_are_named(self):
        text = self.all_text()
        for wanted in ("✓ shown", "✗ not shown", "– undecided", "contents failed (ext4d, old, 2): sha256 differs",
                       "a note with <tags> & an ampersand", "failed: mount failed: device is busy", 'Example CPU <1> & "2"'):
            self.assertIn(wanted, text)

    def test_a_file_that_is_none_is_refused_with_a_reason(self):
        for content, reason in (("{", "not JSON"), ('{"schema": 99, "experiments": []}', "schema 99"), ("[]", "not a results.json")):
            path = os.path.join(self.tmp.name, "bad.json")
            with open(path, "w", encoding="utf-8") as f:
                f.write(content)
            r = run(os.path.join(BENCH, "report"), path, ok=False)
            self.assertEqual(r.returncode, 1)
            self.assertIn(reason, r.stderr)
            self.assertNotIn("Traceback", r.stderr)

    def test_an_empty_run_is_a_page_too(self):
        path = os.path.join(self.tmp.name, "empty.json")
        with open(path, "w", encoding="utf-8") as f:
            json.dump({"schema": 1, "complete": False, "experiments": []}, f)
        run(os.path.join(BENCH, "report"), path, "--out", path + ".html")
        with open(path + ".html", encoding="utf-8") as f:
            self.assertIn("interrupted", f.read())


class Compare(unittest.TestCase):
    def compare(self, change, *options):
        with open(SAMPLE, encoding="utf-8") as f:
            data = json.load(f)
        change(data)
        with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as f:
            json.dump(data, f)
            f.flush()
            return run(os.path.join(BENCH, "compare.sh"), SAMPLE, f.name, *options, ok=False)

    @staticmethod
    def scale(result, factor):
        result["values"] = [v * factor for v in result["values"]]
        for k in ("median", "min", "max"):
            result[k] *= factor

    def test_the_same_run_differs_nowhere(self):
        r = self.compare(lambda d: None, "--fail-worse")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn("0 of 15 differ beyond their spread", r.stdout)
        self.assertNotIn("not the same", r.stdout)

    def test_a_loss_beyond_the_spread_is_told_and_fails(self):
        r = self.compare(lambda d: self.scale(d["experiments"][0]["metrics"][0]["results"][0], 0.5), "--fail-worse")
        self.assertEqual(r.returncode, 1)
        self.assertRegex(r.stdout, r"000 +dd 8 KiB, MB/s +ext4d, new +405 +202 +0\.500 +WORSE, beyond the spread")

    def test_less_is_better_where_the_metric_says_so(self):
        r = self.compare(lambda d: self.scale(d["experiments"][4]["metrics"][1]["results"][0], 0.5), "--beyond", "--fail-worse")
        self.assertEqual(r.returncode, 0)
        self.assertRegex(r.stdout, r"writepages calls +ext4d, x8 +131 +65\.5 +0\.500 +better, beyond the spread")
        self.assertIn("1 of 1 differ", r.stdout)

    def test_overlapping_spreads_and_single_values_are_no_difference(self):
        def change(d):
            self.scale(d["experiments"][0]["metrics"][0]["results"][0], 0.99)
            self.scale(d["experiments"][1]["metrics"][0]["results"][0], 0.1)
        r = self.compare(change, "--fail-worse")
        self.assertEqual(r.returncode, 0)
        self.assertIn("0.990  within the spread", r.stdout)
        self.assertIn("0.100  one value: no spread known", r.stdout)

    def test_other_machines_lost_metrics_and_turned_claims_are_told(self):
        def change(d):
            d["environment"]["kernel"] = "6.1"
            d["experiments"][0]["claims"][0]["shown"] = False
            d["experiments"][1]["metrics"] = []
        r = self.compare(change)
        self.assertIn("kernel: 6.18.44 / 6.1", r.stdout)
        self.assertIn("000: the budget is never overdrawn with before_add: shown / not shown", r.stdout)
        self.assertRegex(r.stdout, r"mean commit, ms +ext4d, old +120 +– +– +measured / absent")


if __name__ == "__main__":
    unittest.main()
