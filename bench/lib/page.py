# SPDX-License-Identifier: GPL-2.0-or-later
"""report.html: one file that needs nothing else, no script in it; light and dark, for narrow and wide windows."""
from html import escape
from statistics import median

import plot as plots
from results import SYSTEMS, find, number, ratio, who, with_unit

STATUS = {"ok": "done", "failed": "failed", "skipped": "skipped", "stopped": "stopped"}

CSS = """
:root{color-scheme:light dark;--bg:#fff;--ink:#22262b;--soft:#5a6068;--line:#d9dce0;--panel:#f5f6f8;--bar:#cfe0f3;
--good:#0a6b4a;--bad:#b3261e;--link:#0b62a8}
@media(prefers-color-scheme:dark){:root{--bg:#16191d;--ink:#e3e6ea;--soft:#a4abb4;--line:#363c44;--panel:#1e2227;
--bar:#27405c;--good:#5fd3a2;--bad:#ff8a80;--link:#7cbcff}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--ink);font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
main,body>header{max-width:1340px;margin:0 auto;padding:0 16px}
h1{font-size:1.7rem;margin:1.2rem 0 .2rem}h2{font-size:1.3rem;margin:0 0 .4rem}h3{font-size:1.05rem;margin:1.2rem 0 .4rem}
p{margin:.4rem 0;max-width:80ch;overflow-wrap:break-word}a{color:var(--link)}code{font:.92em ui-monospace,"DejaVu Sans Mono",monospace;overflow-wrap:anywhere}
.soft{color:var(--soft)}.good{color:var(--good)}.bad{color:var(--bad)}
section{border-top:1px solid var(--line);padding:1.2rem 0}
nav ul{list-style:none;padding:0;margin:.8rem 0;display:flex;flex-wrap:wrap;gap:.3rem .9rem}
.note{border-left:4px solid var(--line);padding:.2rem .8rem;background:var(--panel);margin:.6rem 0}
.note.bad{border-color:var(--bad);color:var(--ink)}
.scroll{overflow-x:auto;margin:.5rem 0}
table{border-collapse:collapse;font-size:.92rem}
caption{text-align:left;color:var(--soft);padding:.2rem 0}
th,td{padding:.28rem .9rem .28rem 0;text-align:left;vertical-align:top;border-bottom:1px solid var(--line)}
thead th{color:var(--soft);font-weight:600;vertical-align:bottom}tbody th{font-weight:600}
.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.v{min-width:6rem}.v i{display:block;height:3px;margin-top:1px;background:var(--link);opacity:.6;border-radius:2px}
caption{max-width:min(80ch,92vw)}
tr.group th{padding-top:.8rem;border-bottom:0}tr.group .soft{font-weight:400}.metrics td:first-child{padding-left:.8rem}
.w{white-space:normal;min-width:4rem;max-width:22rem}.metrics td:first-child{white-space:nowrap}.metrics thead th{font-weight:400}
.plots{display:grid;gap:1.2rem 2rem;grid-template-columns:repeat(auto-fill,minmax(min(100%,540px),1fr));margin:1rem 0}
figure{margin:0;min-width:0}figcaption{font-weight:600;margin-bottom:.2rem}
svg.plot{display:block;width:100%;height:auto;max-width:720px;color:var(--ink)}
.grid{display:grid;gap:.4rem 2.5rem;grid-template-columns:repeat(auto-fill,minmax(min(100%,370px),1fr));align-items:start}.metrics{width:100%}
.lines tbody th{position:sticky;left:0;background:var(--bg) padding-box}
.narrow{display:none}
@media(max-width:600px){.wide{display:none}.narrow{display:block}body{font-size:15px}table{font-size:.85rem}th,td{padding-right:.5rem}th.n{white-space:normal}.lines tbody th{min-width:8.5rem}.v{min-width:5rem}
.stack thead{display:none}.stack tr{display:block;border-bottom:1px solid var(--line);padding:.35rem 0}.stack tbody th,.stack td{display:inline;border:0;padding:0 .4rem 0 0}.stack td:last-child{color:var(--soft)}}
details{margin:.3rem 0}summary{cursor:pointer;color:var(--link)}
dl{display:grid;grid-template-columns:max-content minmax(0,1fr);gap:.15rem 1rem;margin:.5rem 0}dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}
@media(max-width:600px){dl{grid-template-columns:1fr}dd{margin-bottom:.4rem}}
"""


def style_sheet():
    return CSS + plots.style(True) + "@media(prefers-color-scheme:dark){" + plots.style(False) + "}"


def e(v):
    return escape("" if v is None else str(v))


def table(caption, head, rows, numeric=(), kind=""):
    """head: texts; rows: lists of ready HTML cells, the first of which heads its row; numeric: columns of numbers."""
    out = [f'<div class="scroll" role="region" tabindex="0" aria-label="{e(caption)}"><table class="{kind}"><caption>{e(caption)}</caption><thead><tr>']
    out += [f'<th scope="col"{" class=n" if i in numeric else ""}>{e(h)}</th>' for i, h in enumerate(head)]
    out.append("</tr></thead><tbody>")
    for row in rows:
        out.append("<tr>")
        for i, cell in enumerate(row):
            tag = 'th scope="row"' if i == 0 else "td"
            out.append(f'<{tag}{" class=n" if i in numeric else ""}>{cell}</{tag.split()[0]}>')
        out.append("</tr>")
    out.append("</tbody></table></div>")
    return "".join(out)


# ---- What a picture shows, in words and numbers ----


def alt_text(p):
    """The plot's own alternative, or one made from its numbers."""
    given = (p.get("alt") or "").strip()
    if given.strip(". "):
        return given
    parts = []
    unit = p["y"].get("unit")
    for s in p["series"]:
        ys = [q[1] for q in plots.points_of(s)]
        if ys:
            parts.append(f"{s.get('label')}: {len(ys)} values from {number(min(ys))} to {with_unit(max(ys), unit)}, "
                         f"median {number(median(ys))}")
    return f"{p.get('title') or p['name']}. " + ("; ".join(parts) or "no values") + "."


def interval_rows(p, count=12):
    """Long series in stretches of x: number, median and maximum of each."""
    points = [plots.points_of(s) for s in p["series"]]
    xs = [q[0] for ps in points for q in ps]
    first, step = min(xs), (max(xs) - min(xs)) / count or 1
    rows = []
    for i in range(count):
        row = [f"{number(first + i * step)}–{number(first + (i + 1) * step)}"]
        for ps in points:
            ys = [q[1] for q in ps if i == min(int((q[0] - first) / step), count - 1)]
            row.append(f"{number(median(ys))} / {number(max(ys))} ({len(ys)})" if ys else "–")
        rows.append(row)
    return rows


def data_table(p):
    """The numbers of a plot. Bars by category, short series by x, long ones by stretches of x."""
    labels = [s.get("label") or "" for s in p["series"]]
    categories = p["x"].get("categories")
    by_x = [{q[0]: q[1] for q in plots.points_of(s)} for s in p["series"]]
    xs = sorted({x for d in by_x for x in d})
    unit = f", {p['y']['unit']}" if p["y"].get("unit") else ""
    caption = f"{plots.axis_text(p['y'])} by {plots.axis_text(p['x'])}"
    if not xs:
        return "<p class=soft>No values.</p>"
    if categories or len(xs) <= 40:
        name = (lambda x: categories[int(x)] if 0 <= int(x) < len(categories) else x) if categories else number
        rows = [[e(name(x))] + [number(d.get(x)) for d in by_x] for x in xs]
    else:
        rows = interval_rows(p)
        caption += ": median / maximum (number of values) in each stretch; all values are in results.json"
    return table(caption, [plots.axis_text(p["x"])] + [t + unit for t in labels], rows, range(1, len(labels) + 1))


def figure(p, ident, svgs):
    alt = alt_text(p)
    out = [f'<figure id="{ident}"><figcaption>{e(p.get("title") or p["name"])}</figcaption>']
    for size in plots.SIZES:
        name = f"{ident}_{size}"
        if name in svgs:
            out.append(f'<div class="{size}">{plots.dress(svgs[name], p, name, alt)}</div>')
    out.append(f'<p class="soft">{e(alt)}</p><details><summary>The numbers</summary>{data_table(p)}</details></figure>')
    return "".join(out)


# ---- Tables ----


def median_cell(r, top):
    if r.get("status") == "stopped":
        bound = f"&lt; {number(r['bound'])} " if r.get("bound") is not None else ""
        return f'<span title="{e(r.get("reason"))}">{bound}stopped</span>'
    if r.get("median") is None:
        return f'<span class="bad" title="{e(r.get("reason"))}">{e(STATUS.get(r.get("status"), "none"))}</span>'
    share = max(0, min(100, 100 * r["median"] / top)) if top else 0
    return f'{number(r["median"])}<i style="width:{share:.0f}%"></i>'


def metric_rows(m):
    top = max((r["median"] for r in m["results"] if r.get("median") is not None), default=0)
    better = {"higher": "more is better", "lower": "less is better"}.get(m.get("better"), "")
    unit = ", ".join(t for t in (m.get("unit"), better) if t)
    rows = [f'<tr class="group"><th scope="rowgroup" colspan="4">{e(m.get("label") or m["name"])} '
            f'<span class="soft">{e(unit)}</span></th></tr>']
    for r in m["results"]:
        spread = f'{number(r.get("min"))} … {number(r.get("max"))}' if len(r.get("values") or []) > 1 else "–"
        if r.get("status") not in (None, "ok"):
            spread = f'<span class="soft">{e(r.get("reason") or "")}</span>'
        rows.append(f'<tr><td>{e(who(r))}</td><td class="n v">{median_cell(r, top)}</td>'
                    f'<td class="n w">{spread}</td><td class="n">{ratio(r.get("ratio"))}</td></tr>')
    return "<tbody>" + "".join(rows) + "</tbody>"


def metrics_table(x):
    """One small table for each metric, as many beside each other as there is room for."""
    if not x.get("metrics"):
        return ""
    tables = [f'<div class="scroll" role="region" tabindex="0" aria-label="{e(m.get("label") or m["name"])}"><table class="metrics"><thead class="soft"><tr>'
              "<th scope=col>system</th><th scope=col class=n>median</th><th scope=col class=n>spread</th><th scope=col class=n>ratio</th>"
              f"</tr></thead>{metric_rows(m)}</table></div>" for m in x["metrics"]]
    return f'<h3>Results</h3><p class="soft">Medians; the ratio is ext4d\'s default (on a device slowed down in the same way) ÷ this one.</p><div class="grid">{"".join(tables)}</div>'


def seed_table(x):
    seed = x.get("seed")
    if not seed:
        return ""
    by_label = {m.get("label"): m for m in x.get("metrics") or []}
    rows = []
    for s in seed.get("rows") or []:
        m = by_label.get(s.get("label"))
        ours = [find(m, "ext4d", t) if m else None for t in ("old", "new")]
        rows.append([e(s.get("label")), with_unit(s.get("old"), s.get("unit")), with_unit(s.get("new"), s.get("unit"))]
                    + [with_unit(r and r.get("median"), m.get("unit") if m else None) for r in ours])
    own = any(r[3] != "–" or r[4] != "–" for r in rows)
    head = ["", "published: old", "new"] + (["here: old", "new"] if own else [])
    rows = rows if own else [r[:3] for r in rows]
    return table("Published with the change: " + (seed.get("text") or ""), head, rows, range(1, len(head)))


def claim_mark(c):
    if c.get("shown") is True:
        return '<span class="good">✓ shown</span>'
    if c.get("shown") is False:
        return '<span class="bad">✗ not shown</span>'
    return '<span class="soft">– undecided</span>'


def claims_table(experiments, named):
    rows = []
    for x in experiments:
        for c in x.get("claims") or []:
            first = [f'<a href="#x-{e(x["name"])}">{e(x["name"])}</a>'] if named else []
            rows.append(first + [e(c.get("text")), claim_mark(c), e(c.get("evidence"))])
    head = (["experiment"] if named else []) + ["what it is to show", "result", "evidence"]
    return table("Old to new, as the mails have it", head, rows, kind="stack") if rows else ""


def checks_text(x):
    checks = x.get("checks") or []
    if not checks:
        return ""
    bad = [c for c in checks if not c.get("ok")]
    out = [f'<p>{len(checks) - len(bad)} of {len(checks)} checks passed.</p>']
    for c in bad:
        where = ", ".join(str(c[k]) for k in ("system", "setting", "round") if c.get(k) is not None)
        out.append(f'<p class="note bad"><b>{e(c.get("name"))}</b> failed ({e(where)}): {e(c.get("text"))}</p>')
    return "".join(out)


def counters_text(x):
    sets = [c for c in x.get("counters") or [] if c.get("delta")]
    if not sets:
        return ""
    names = sorted({n for c in sets for n in c["delta"]})
    head = ["counter"] + [" ".join(str(c[k]) for k in ("system", "setting", "case", "round") if c.get(k) is not None) for c in sets]
    rows = [[f"<code>{e(n)}</code>"] + [number(c["delta"].get(n)) for c in sets] for n in names]
    body = table("Gained during the run; minima and maxima at its end", head, rows, range(1, len(head)))
    return f"<details><summary>{len(names)} counters of ext4d</summary>{body}</details>"


# ---- The page ----


def change(new, old, better):
    """'1.14× more', '24× less'."""
    a, b = new.get("median"), old and old.get("median")
    if not a or not b:
        return "–"
    factor, word = (a / b, "more") if a >= b else (b / a, "less")
    if factor < 1.02:
        return "the same"
    good = {"higher": word == "more", "lower": word == "less"}.get(better)
    mark = "" if good is None else ' class="good"' if good else ' class="bad"'
    return f"<span{mark}>{ratio(factor)} {word}</span>"


def own_result(m):
    return find(m, "ext4d", "new") or find(m, "ext4d")


def own_beside(m):
    """ext4d on the device that the others had: slowed down for all alike, if it had to be."""
    return find(m, "ext4d", "throttled") or find(m, "ext4d", "guest") or own_result(m)


def row_head(x, m):
    what = ", ".join(t for t in (m.get("label") or m["name"], m.get("unit")) if t)
    return f'<a href="#x-{e(x["name"])}">{e(x["name"])}</a> {e(what)}'


def plain_cell(r):
    return median_cell(r, None).split("<i ")[0] if r else "–"


def old_and_new(pairs):
    rows = [[row_head(x, m), plain_cell(find(m, "ext4d", "old")), plain_cell(own_result(m)),
             change(own_result(m), find(m, "ext4d", "old"), m.get("better"))] for x, m in pairs]
    return table("Medians of ext4d", ["", "old", "new", "new against old"], rows, range(1, 4), "lines") if rows else ""


def beside_others(pairs):
    others = [s for s in ("ext4", "fuse2fs", "raw", "null") if any(find(m, s) for _, m in pairs)]
    pairs = [(x, m) for x, m in pairs if any(find(m, s) for s in others)]
    rows, head = [], ["", "ext4d"]
    for s in others:
        head += [SYSTEMS[s]] + (["against ext4"] if s == "ext4" else [])
    for x, m in pairs:
        own = own_beside(m)
        row = [row_head(x, m), plain_cell(own)]
        for s in others:
            row += [plain_cell(find(m, s))] + ([change(own, find(m, s), m.get("better"))] if s == "ext4" else [])
        rows.append(row)
    return table("Medians beside other systems on the same device", head, rows, range(1, len(head)), "lines") if rows else ""


def main_numbers(experiments):
    """One line for each metric: the old and the new of ext4d, and ext4d beside the others."""
    pairs = [(x, m) for x in experiments for m in x.get("metrics") or [] if own_result(m)]
    return old_and_new([p for p in pairs if find(p[1], "ext4d", "old")]) + beside_others(pairs)


def settings_text(x):
    rows = [f"<dt>{e(name)}</dt><dd><code>{e(' '.join(f'{k}={v}' for k, v in (t or {}).items()) or 'defaults')}</code></dd>"
            for name, t in (x.get("settings") or {}).items()]
    return f"<dl>{''.join(rows)}</dl>" if rows else ""


def heading(x):
    """'000 writepages_budget', but 'parallel dd' once."""
    title = x.get("title") or ""
    return title if title.startswith(x["name"]) else f'{x["name"]} {title}'


def experiment(number_of_x, x, svgs):
    out = [f'<section id="x-{e(x["name"])}"><h2>{e(heading(x))}</h2>']
    if x.get("about"):
        out.append(f'<p>{e(x["about"])}</p>')
    if x.get("workload"):
        scale = f" <span class=soft>({e(x['scale'])})</span>" if x.get("scale") else ""
        out.append(f'<p><code>{e(x["workload"])}</code>{scale}</p>')
    if x.get("status") not in (None, "ok"):
        kind = " bad" if x["status"] == "failed" else ""
        out.append(f'<p class="note{kind}"><b>{e(STATUS.get(x["status"], x["status"]))}</b>: {e(x.get("reason"))}</p>')
    out += [settings_text(x), claims_table([x], False),
            seed_table(x), metrics_table(x)]
    figures = [figure(p, f"p{number_of_x}_{i}", svgs) for i, p in enumerate(x.get("plots") or [])]
    if figures:
        out.append(f'<div class="plots">{"".join(figures)}</div>')
    out += [checks_text(x), counters_text(x), "</section>"]
    return "".join(out)


def environment(env):
    device = env.get("device") or {}
    rows = [("commit", env.get("commit")), ("kernel", env.get("kernel")),
            ("processor", " × ".join(str(v) for v in (env.get("cpus"), env.get("cpu")) if v)),
            ("memory", env.get("memory_bytes") and f"{env['memory_bytes'] / 2**30:.1f} GiB"),
            ("device", ", ".join(str(device[k]) for k in ("name", "model", "text") if device.get(k))),
            ("device size", device.get("size_bytes") and f"{device['size_bytes'] / 2**30:.1f} GiB"),
            ("emulation", device.get("emulation") and f"{device['emulation']} (limit: {device.get('limit')})"),
            ("mkfs", env.get("mkfs")),
            ("clients and servers", env.get("one_cpu") is not None and f"on CPU {env['one_cpu']} only")]
    rows += [(f"mount of {SYSTEMS.get(k, k)}", f"{m.get('type')} {m.get('options')}") for k, m in (env.get("mounts") or {}).items()]
    rows.append(("versions", ", ".join(f"{k} {v}" for k, v in (env.get("versions") or {}).items())))
    return "<dl>" + "".join(f"<dt>{e(k)}</dt><dd>{e(v)}</dd>" for k, v in rows if v) + "</dl>"


def header(data):
    device = (data.get("environment") or {}).get("device") or {}
    where = device.get("emulation") or device.get("model") or device.get("name") or "?"
    out = [f'<header><h1>ext4d: benchmarks on {e(where)}</h1>',
           f'<p class="soft">{e(data.get("started"))}, {e(data.get("mode"))}, {number(data.get("rounds"))} rounds, '
           f'{number(round((data.get("seconds") or 0) / 60, 1))} minutes</p>',
           f'<p><code>{e(data.get("command"))}</code></p>']
    if not data.get("complete", True):
        out.append('<p class="note bad"><b>The run was interrupted</b>; what is here is valid.</p>')
    out += [f'<p class="note">{e(n)}</p>' for n in data.get("notes") or []]
    links = [f'<li><a href="#x-{e(x["name"])}">{e(x["name"])}</a>'
             + ("" if x.get("status") in (None, "ok") else f' <span class="soft">{e(x["status"])}</span>') + "</li>"
             for x in data["experiments"]]
    out.append(f'<nav aria-label="experiments"><ul>{"".join(links)}<li><a href="#environment">environment</a></li></ul></nav></header>')
    return "".join(out)


def jobs(data):
    """What draw() has to draw: each plot that has something to show, in both sizes."""
    return [(p, size, f"p{k}_{i}_{size}") for k, x in enumerate(data["experiments"])
            for i, p in enumerate(x.get("plots") or []) if plots.drawable(p) for size in plots.SIZES]


def page(data, svgs):
    experiments = data["experiments"]
    summary = claims_table(experiments, True) + main_numbers(experiments)
    out = ['<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">',
           '<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">',
           f"<title>ext4d benchmarks</title><style>{style_sheet()}</style></head><body>", header(data), "<main>"]
    if summary:
        out.append(f"<section><h2>Summary</h2>{summary}</section>")
    out += [experiment(k, x, svgs) for k, x in enumerate(experiments)]
    out.append(f'<section id="environment"><h2>Environment</h2>{environment(data.get("environment") or {})}</section></main></body></html>\n')
    return "\n".join(out)
