# SPDX-License-Identifier: GPL-2.0-or-later
"""The table on the terminal: the seed's published figures beside ours."""


def number(value):
    if value is None:
        return "-"
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return f"{value:.0f}"
    if abs(value) >= 10:
        return f"{value:.1f}"
    return f"{value:.3g}"


def who(result, labels):
    if result["setting"] is None:
        return result["system"]
    return f"{result['system']} {labels.get(result['setting'], result['setting'])}"


def row(metric, result, labels):
    spread = f"{number(result['min'])}..{number(result['max'])}" if result["values"] else ""
    text = result["reason"] or "" if result["status"] != "ok" else ""
    ratio = f"{result['ratio']:.2f}" if result["ratio"] else "-"
    value = number(result["median"])
    if result["status"] == "stopped":
        bound = result.get("bound")
        sign = "<" if metric.better == "higher" else ">"
        value = f"{sign}{number(bound)}" if bound else "stopped"
    return f"  {who(result, labels):28} {value:>10} {metric.unit:6} {ratio:>7}  {spread:20} {text}".rstrip()


def labels_of(head):
    """new -> before_add (new): what the setting stands for, if it is one tunable."""
    labels = {}
    for setting, tunables in head["settings"].items():
        values = list(tunables.values())
        if values and setting in ("new", "old"):
            labels[setting] = f"{values[0]} ({setting})"
    return labels


def print_experiment(record, out=print):
    head = record.head
    title = head["title"] if head["title"].startswith(head["name"]) else f"{head['name']} {head['title']}"
    out(f"\n{title}: {head['workload']}")
    if head["scale"]:
        out(f"  scale: {head['scale']}")
    if head["status"] != "ok":
        out(f"  {head['status'].upper()}: {head['reason']}")
    labels = labels_of(head)
    for metric in record.metrics.values():
        metric.as_json()
        out(f"  {metric.label:28} {'median':>10} {'':6} {'new/it':>7}  spread")
        for result in metric.results.values():
            out(row(metric, result, labels))
    if head["seed"]:
        out(f"  published ({head['seed']['text']}):")
        for r in head["seed"]["rows"]:
            out(f"    {r['label']:26} old {number(r['old']):>8}   new {number(r['new']):>8} {r['unit']}")
    for claim in record.claims:
        mark = {True: "yes", False: "NO", None: "?"}[claim["shown"]]
        out(f"  [{mark:3}] {claim['text']}: {claim['evidence']}")
    bad = [c for c in record.checks if not c["ok"]]
    out(f"  checks: {len(record.checks) - len(bad)} passed, {len(bad)} failed")
    for c in bad:
        out(f"    {c['name']} {c['system']} {c['setting'] or ''}: {c['text']}")
