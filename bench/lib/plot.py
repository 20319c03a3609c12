# SPDX-License-Identifier: GPL-2.0-or-later
"""
Plots of results.json as SVG, drawn by gnuplot.

Each plot is drawn twice, for a wide and for a narrow page, since text that shrinks with the picture cannot
be read. gnuplot draws with marker colours that stand for roles (`ROLE`); they become CSS classes, so that
one picture serves a light and a dark page. Everything else about the page is page.py's.
"""
import math
import os
import re
import shutil
import subprocess
import tempfile
from xml.sax.saxutils import escape

from results import Problem, number

SIZES = {"wide": (640, 330), "narrow": (360, 270)}
COLOURS = 8
LIGHT = ["#0b62a8", "#c2410c", "#0a7d5a", "#8b3fa0", "#6b6b6b", "#8a6500", "#b0215f", "#0f7585"]
DARK = ["#6cb6ff", "#ff9a5c", "#4fd1a1", "#d3a0f0", "#b4b4b4", "#e3bb4a", "#ff8fb6", "#5fd0df"]
# Marker colours: rgb(1, 1, n) is the n-th series, rgb(2, 1, n) a part of the frame.
GRID, AXIS, TEXT, MARK = "#020101", "#020102", "#020103", "#020104"
ROLE = {(2, 1, 1): "grid", (2, 1, 2): "axis", (2, 1, 3): "text", (2, 1, 4): "mark"}
POINT_TYPES = [7, 5, 9, 13, 11, 6, 4, 8]
MAX_POINTS = 800  # of one series in one picture; more are thinned, keeping the extremes
MAX_MARKED = 60  # a series of more points is a plain line


# ---- Choosing ----


def colours(plot):
    """One colour number (1..) for each series: new is always the first, old the second, peers have theirs."""
    fixed = {("ext4d", "new"): 1, ("ext4d", "old"): 2, ("ext4", None): 3, ("fuse2fs", None): 4,
             ("raw", None): 5, ("null", None): 6}
    want = [fixed.get((s.get("system"), s.get("setting"))) for s in plot["series"]]
    taken, result = set(), []
    for c in want:
        c = c if c not in taken else None
        if c:
            taken.add(c)
        result.append(c)
    free = [c for c in range(1, COLOURS + 1) if c not in taken]
    for i, c in enumerate(result):
        if c is None:
            result[i] = free.pop(0) if free else i % COLOURS + 1
    return result


def points_of(series):
    """[(x, y, low, high)], without the points that have no value."""
    low, high = series.get("low") or [], series.get("high") or []
    out = []
    for i, point in enumerate(series.get("points") or []):
        x, y = point[0], point[1]
        if x is None or y is None:
            continue
        lo = low[i] if i < len(low) and low[i] is not None else y
        hi = high[i] if i < len(high) and high[i] is not None else y
        out.append((x, y, lo, hi))
    return out


def thin(points, most=MAX_POINTS):
    """At most about `most` points: of each stretch of x the lowest and the highest."""
    if len(points) <= most:
        return points
    points = sorted(points)
    first, last = points[0][0], points[-1][0]
    step = (last - first) / (most // 2) or 1
    buckets = {}
    for p in points:
        buckets.setdefault(int((p[0] - first) / step), []).append(p)
    out = []
    for _, ps in sorted(buckets.items()):
        out += sorted({min(ps, key=lambda p: p[1]), max(ps, key=lambda p: p[1])})
    return out


def scattered(plot):
    """Whether single points say more than a line: many values on a logarithmic scale, over time."""
    style = plot.get("style")
    if style in ("points", "lines"):
        return style == "points"
    return bool(plot["y"].get("log")) and max(len(s.get("points") or []) for s in plot["series"]) > MAX_MARKED


def axis_text(axis):
    unit = axis.get("unit")
    return (axis.get("label") or "") + (f" ({unit})" if unit else "")


def drawable(plot):
    """A plot with at least one point that its axes can show."""
    for s in plot["series"]:
        for x, y, _, _ in points_of(s):
            if (y > 0 or not plot["y"].get("log")) and (x > 0 or not plot["x"].get("log")):
                return True
    return False


# ---- gnuplot ----


def quote(text):
    return "'" + str(text).replace("'", "’").replace("\n", " ") + "'"


def tick_format(values):
    top = max(values, default=1)
    return "%.0s%c" if top >= 100000 else "%g"


def bar_categories(plot):
    """The plot's categories; for bars over numbers, the numbers."""
    given = plot["x"].get("categories")
    if given:
        return [str(c) for c in given], None
    if plot.get("kind") != "bars":
        return None, None
    xs = sorted({p[0] for s in plot["series"] for p in points_of(s)})
    return [number(x) for x in xs], {x: i for i, x in enumerate(xs)}


def x_tics(plot, width, categories):
    if categories:
        labels = [(c, i) for i, c in enumerate(categories)]
    elif plot["x"].get("log"):
        xs = sorted({p[0] for s in plot["series"] for p in points_of(s) if p[0] > 0})
        if len(xs) > 16:
            return [f"set format x {quote(tick_format(xs))}"]
        labels = [(f"{x:g}", x) for x in xs]
    else:
        return []
    room = (width - 90) / max(len(labels), 1)
    longest = max((len(t) for t, _ in labels), default=0) * 7.2
    rotate = " rotate by 40 right" if longest > room - 4 else ""
    every = max(1, math.ceil(15 / room)) if rotate else 1
    shown = ", ".join(f"{quote(t)} {x}" for i, (t, x) in enumerate(labels) if i % every == 0)
    return [f"set xtics nomirror textcolor rgb '{TEXT}' scale 0.6{rotate} ({shown})"]


def y_range(plot):
    ys = [p[1] for s in plot["series"] for p in points_of(s)]
    if plot.get("kind") == "cdf" and not plot["y"].get("log"):
        return ["set yrange [0:1.02]"]
    if plot["y"].get("log"):
        positive = [y for y in ys if y > 0]
        low, high = math.log10(min(positive)), math.log10(max(positive))
        bottom = min(positive) / 2 if plot.get("kind") == "bars" else 10 ** math.floor(low)
        top = 10 ** max(high + 0.08 * (high - math.log10(bottom)), math.log10(bottom) + 1)
        return ["set logscale y 10", f"set yrange [{bottom:g}:{top:g}]",
                f"set format y {quote(tick_format(positive))}"]
    return [f"set format y {quote(tick_format([abs(y) for y in ys]))}",
            "set yrange [0:*]" if min(ys, default=0) >= 0 else "set yrange [*:*]"]


def key_rows(plot, width):
    longest = max(len(s.get("label") or "") for s in plot["series"]) * 7.2 + 52
    cols = max(1, min(len(plot["series"]), int((width - 40) // longest)))
    return math.ceil(len(plot["series"]) / cols), cols


def frame(plot, width, categories):
    _, cols = key_rows(plot, width)
    out = [
        "reset",
        f"set border 3 lc rgb '{AXIS}'",
        f"set grid ytics lc rgb '{GRID}' lw 1 lt 1, lc rgb '{GRID}' lw 1 lt 1",
        f"set xtics nomirror textcolor rgb '{TEXT}' scale 0.6",
        f"set ytics nomirror textcolor rgb '{TEXT}' scale 0.6",
        f"set key outside above left Left reverse horizontal maxcols {cols} samplen 2 textcolor rgb '{TEXT}'",
        f"set xlabel {quote(axis_text(plot['x']))} textcolor rgb '{TEXT}'",
        f"set ylabel {quote(axis_text(plot['y']))} textcolor rgb '{TEXT}'",
        "set rmargin 3",
        "set errorbars small",
    ]
    if plot["x"].get("log") and not categories:
        xs = [p[0] for s in plot["series"] for p in points_of(s) if p[0] > 0]
        pad = max(1.1, (max(xs) / min(xs)) ** 0.04)
        out += ["set logscale x 10", f"set xrange [{min(xs) / pad:g}:{max(xs) * pad:g}]"]
    elif not categories and max(len(s.get("points") or []) for s in plot["series"]) <= MAX_MARKED:
        out.append("set offsets graph 0.03, graph 0.03, 0, 0")
    out += x_tics(plot, width, categories) + y_range(plot)
    for mark in plot.get("lines") or []:
        v, label = mark["value"], quote(mark.get("label") or "")
        line = f"nohead lc rgb '{MARK}' dt 2 front"
        if mark.get("axis") == "y":
            out.append(f"set arrow from graph 0, first {v} to graph 1, first {v} {line}")
            out.append(f"set label {label} at graph 0.99, first {v} right offset 0,0.6 textcolor rgb '{TEXT}'")
        else:
            out.append(f"set arrow from first {v}, graph 0 to first {v}, graph 1 {line}")
            out.append(f"set label {label} at first {v}, graph 0.03 rotate by 90 offset 0.8,0 textcolor rgb '{TEXT}'")
    return out


def bars(plot, palette, index, categories):
    data, draw = [], []
    n = len(plot["series"])
    width = 0.8 / n
    for k, s in enumerate(plot["series"]):
        rows = []
        for x, y, lo, hi in points_of(s):
            at = index[x] if index else x
            if y > 0 or not plot["y"].get("log"):
                rows.append(f"{at + (k - (n - 1) / 2) * width:.4f} {y:.9g} {lo:.9g} {hi:.9g}")
        data += [f"$d{k} << EOD"] + (rows or ["nan nan nan nan"]) + ["EOD"]
        style = f"lc rgb '#0101{palette[k]:02x}'"
        draw.append(f"$d{k} using 1:2 with boxes {style} fillstyle solid 0.9 noborder title {quote(s.get('label'))}")
        if s.get("low") and s.get("high"):
            draw.append(f"$d{k} using 1:2:3:4 with yerrorbars lc rgb '{AXIS}' pt -1 notitle")
    head = [f"set boxwidth {width * 0.92:.4f} absolute", f"set xrange [-0.6:{len(categories) - 0.4}]"]
    return head + data + ["plot " + ", ".join(draw)]


def line_style(plot, series, k, palette, points):
    colour = f"lc rgb '#0101{palette[k]:02x}'"
    point = f"pt {POINT_TYPES[k % len(POINT_TYPES)]}"
    title = f"title {quote(series.get('label'))}"
    if plot.get("kind") == "cdf":
        return f"using 1:2 with steps {colour} lw 2 {title}"
    if scattered(plot):
        return f"using 1:2 with points {colour} {point} ps 0.35 {title}"
    if series.get("low") and series.get("high"):
        return f"using 1:2:3:4 with yerrorlines {colour} lw 2 {point} ps 0.6 {title}"
    if len(points) > MAX_MARKED:
        return f"using 1:2 with lines {colour} lw 1.5 {title}"
    return f"using 1:2 with linespoints {colour} lw 2 {point} ps 0.6 {title}"


def lines(plot, palette):
    data, draw = [], []
    for k, s in enumerate(plot["series"]):
        points = points_of(s)
        if plot["y"].get("log"):
            points = [p for p in points if p[1] > 0]
        if plot["x"].get("log"):
            points = [p for p in points if p[0] > 0]
        rows = [f"{x:.9g} {y:.9g} {lo:.9g} {hi:.9g}" for x, y, lo, hi in thin(points)]
        data += [f"$d{k} << EOD"] + (rows or ["nan nan nan nan"]) + ["EOD"]
        draw.append(f"$d{k} " + line_style(plot, s, k, palette, points))
    return data + ["plot " + ", ".join(draw)]


def script(plot, size, ident, output):
    """gnuplot's commands for one plot in one size."""
    width, height = SIZES[size]
    rows, _ = key_rows(plot, width)
    height += 16 * (rows - 1)
    categories, index = bar_categories(plot)
    palette = colours(plot)
    out = frame(plot, width, categories)
    out.append(f"set terminal svg size {width},{height} dynamic noenhanced font 'sans-serif,12' name '{ident}'")
    out.append(f"set output {quote(output)}")
    if plot.get("kind") == "bars":
        out += bars(plot, palette, index, categories)
    else:
        if categories:
            out.append(f"set xrange [-0.4:{len(categories) - 0.6}]")
        out += lines(plot, palette)
    out.append("unset output")
    return "\n".join(out) + "\n"


# ---- SVG ----


def _role(match):
    rgb = tuple(int(v) for v in match.groups())
    if rgb in ROLE:
        return ROLE[rgb]
    return f"c{rgb[2]}" if rgb[:2] == (1, 1) else None


def _classes(tag):
    """A tag with its marker colours turned into classes: s- strokes, f- fills, i- is inherited by currentColor."""
    names = []

    def take(m):
        role = _role(re.match(r"rgb\(\s*(\d+),\s*(\d+),\s*(\d+)\)", m.group(3)))
        if role is None:
            return m.group(0)
        names.append({"stroke": "s-", "fill": "f-", "color": "i-"}[m.group(1)] + role)
        return ""

    tag = re.sub(r"""\s(stroke|fill|color)\s*=\s*(['"])(rgb\([^)]*\))\2""", take, tag)
    if names:
        tag = re.sub(r"^<([\w:]+)", r'<\1 class="' + " ".join(names) + '"', tag)
    return tag


def dress(text, plot, ident, alt, css=""):
    """gnuplot's SVG made ours: named, described, its colours left to the style sheet, its ids its own."""
    box = re.search(r'viewBox="([^"]+)"', text).group(1)
    body = text[text.index('<g id="gnuplot_canvas">'):]
    body = re.sub(r"<filter.*?</filter>", "", body, flags=re.S)
    body = body.replace(' class="gridline"', "").replace('id="gnuplot_canvas"', f'id="{ident}-canvas"')
    body = re.sub(r"gp(Dot|Pt\d+)", rf"{ident}-\1", body)
    body = re.sub(r'\s(?:color|stroke)="black"', "", body)
    body = body.replace('fill="black"', 'fill="currentColor"')
    body = re.sub(r"<[\w:]+\s[^>]*>", lambda m: _classes(m.group(0)), body)
    body = re.sub(r"<g [^>]*>\s*</g>\n?", "", body)
    drawn = [s for s in plot["series"] for _ in range(2 if plot.get("kind") == "bars" and s.get("low") and s.get("high") else 1)]
    for i, s in enumerate(drawn, 1):
        body = body.replace(f"<title>{ident}_plot_{i}</title>", f"<title>{escape(s.get('label') or '')}</title>")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="{box}" '
        f'class="plot" role="img" aria-labelledby="{ident}-t {ident}-d">\n'
        f'<title id="{ident}-t">{escape(plot.get("title") or plot["name"])}</title>\n'
        f'<desc id="{ident}-d">{escape(alt)}</desc>\n{css}{body}'
    )


def style(light=True):
    """The rules of the classes that dress() gives, for one of the two palettes."""
    palette = LIGHT if light else DARK
    frame_colours = {
        "grid": "#dcdcdc" if light else "#3a3f47", "axis": "#6a6a6a" if light else "#9aa0a8",
        "text": "#333333" if light else "#d6d9de", "mark": "#555555" if light else "#c0c4ca",
    }
    rules = dict(frame_colours)
    rules.update({f"c{i + 1}": c for i, c in enumerate(palette)})
    return "".join(f".s-{k}{{stroke:{v}}}.f-{k}{{fill:{v}}}.i-{k}{{color:{v}}}" for k, v in rules.items())


def alone(plot, svg, ident, alt):
    """A picture that stands by itself (README): with a title, a ground and both palettes in it."""
    css = (
        f"<style>.plot{{background:#fff;color:#333}}{style(True)}"
        f"@media(prefers-color-scheme:dark){{.plot{{background:#16191d;color:#d6d9de}}{style(False)}}}</style>\n"
    )
    return '<?xml version="1.0" encoding="utf-8"?>\n' + dress(svg, plot, ident, alt, css)


def draw(jobs):
    """jobs: [(plot, size, ident)]. Returns {ident: gnuplot's SVG}. Problem when gnuplot cannot do it."""
    tool = shutil.which("gnuplot")
    if not tool:
        raise Problem("gnuplot is not installed (Debian: gnuplot-nox); --no-plots makes a report of tables only")
    with tempfile.TemporaryDirectory(prefix="ext4d-report.") as tmp:
        text = "".join(script(plot, size, ident, os.path.join(tmp, ident + ".svg")) for plot, size, ident in jobs)
        run = subprocess.run([tool], input=text, text=True, capture_output=True, check=False)
        complaints = [line for line in run.stderr.splitlines() if line.strip() and "empty" not in line]
        if run.returncode or complaints:
            raise Problem("gnuplot failed:\n" + run.stderr.strip())
        out = {}
        for _, _, ident in jobs:
            with open(os.path.join(tmp, ident + ".svg"), encoding="utf-8") as f:
                out[ident] = f.read()
        return out
