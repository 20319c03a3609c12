# SPDX-License-Identifier: GPL-2.0-or-later
"""What compare.sh prints: the differences of two results.json."""
import argparse
import os
import sys

sys.dont_write_bytecode = True

from results import Problem, load, number, who  # noqa: E402


def keyed(data):
    """{(experiment, metric, system, setting): (metric, result)} in the order of the file."""
    return {(x["name"], m["name"], r.get("system"), r.get("setting")): (m, r)
            for x in data["experiments"] for m in x.get("metrics") or [] for r in m["results"]}


def apart(a, b):
    """Whether the spreads do not touch; None where one value is all there is."""
    if min(len(a.get("values") or []), len(b.get("values") or [])) < 2:
        return None
    return a["max"] < b["min"] or b["max"] < a["min"]


def verdict(metric, a, b):
    """(text, worse): what the difference of two medians means."""
    beyond = apart(a, b)
    if beyond is None:
        return "one value: no spread known", False
    if not beyond:
        return "within the spread", False
    more = b["median"] > a["median"]
    if metric.get("better") not in ("higher", "lower"):
        return "beyond the spread", False
    worse = more != (metric["better"] == "higher")
    return ("WORSE" if worse else "better") + ", beyond the spread", worse


def rows(a, b):
    """[(experiment, what, who, a, b, ratio, verdict, worse)]"""
    left, right = keyed(a), keyed(b)
    out = []
    for key in list(left) + [k for k in right if k not in left]:
        m, ra = left.get(key, (None, None))
        n, rb = right.get(key, (None, None))
        what = (m or n).get("label") or key[1]
        unit = (m or n).get("unit")
        what += f", {unit}" if unit else ""
        va, vb = ra and ra.get("median"), rb and rb.get("median")
        if va is None or vb is None:
            states = [(r.get("status") or "ok" if r.get("median") is None else "measured") if r else "absent" for r in (ra, rb)]
            out.append((key[0], what, who(ra or rb), va, vb, None, f"{states[0]} / {states[1]}", False))
            continue
        text, worse = verdict(m, ra, rb)
        out.append((key[0], what, who(ra), va, vb, vb / va if va else None, text, worse))
    return out


def environment(a, b):
    """Sentences about what was not the same, so that nobody compares two machines unawares."""
    ea, eb = a.get("environment") or {}, b.get("environment") or {}
    da, db = ea.get("device") or {}, eb.get("device") or {}
    pairs = [("commit", ea.get("commit"), eb.get("commit")), ("mode", a.get("mode"), b.get("mode")),
             ("rounds", a.get("rounds"), b.get("rounds")), ("kernel", ea.get("kernel"), eb.get("kernel")),
             ("cpu", ea.get("cpu"), eb.get("cpu")), ("cpus", ea.get("cpus"), eb.get("cpus")),
             ("memory", ea.get("memory_bytes"), eb.get("memory_bytes")), ("mkfs", ea.get("mkfs"), eb.get("mkfs")), ("one_cpu", ea.get("one_cpu"), eb.get("one_cpu"))]
    pairs += [(f"device {k}", da.get(k), db.get(k)) for k in ("name", "model", "size_bytes", "emulation", "limit")]
    scales = [{x["name"]: x.get("scale") for x in d["experiments"]} for d in (a, b)]
    pairs += [(f"scale of {n}", s, scales[1][n]) for n, s in scales[0].items() if n in scales[1]]
    return [f"{name}: {x} / {y}" for name, x, y in pairs if x != y]


def verdicts_changed(a, b):
    words = {True: "shown", False: "not shown", None: "undecided"}
    left, right = ({(x["name"], c.get("text")): c.get("shown") for x in d["experiments"] for c in x.get("claims") or []} for d in (a, b))
    return [f"{k[0]}: {k[1]}: {words[left[k]]} / {words[right[k]]}" for k in left if k in right and left[k] != right[k]]


def show(args, a, b):
    for title, lines in (("not the same:", environment(a, b)), ("claims that changed:", verdicts_changed(a, b))):
        if lines:
            print(title)
            print("".join(f"  {line}\n" for line in lines))
    table = [r for r in rows(a, b) if not args.beyond or "beyond" in r[6]]
    widths = [max([len(r[i]) for r in table] + [10]) for i in (1, 2)]
    print(f"{'exp.':<12} {'what':<{widths[0]}} {'system':<{widths[1]}} {'A':>12} {'B':>12} {'B/A':>8}  difference")
    for x, what, system, va, vb, ratio, text, _ in table:
        quotient = "–" if ratio is None else f"{ratio:.3f}"
        print(f"{x:<12} {what:<{widths[0]}} {system:<{widths[1]}} {number(va):>12} {number(vb):>12} {quotient:>8}  {text}")
    worse = sum(r[7] for r in table)
    print(f"\n{sum('beyond' in r[6] for r in table)} of {len(table)} differ beyond their spread, {worse} for the worse")
    return worse


def main():
    parser = argparse.ArgumentParser(prog="compare.sh", description="the differences of two results.json")
    parser.add_argument("a")
    parser.add_argument("b")
    parser.add_argument("--beyond", action="store_true", help="only what differs beyond its spread")
    parser.add_argument("--fail-worse", action="store_true", help="exit 1 when something is worse beyond its spread")
    args = parser.parse_args()
    try:
        worse = show(args, load(args.a), load(args.b))
    except Problem as e:
        sys.exit(f"compare.sh: {e}")
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return
    sys.exit(1 if args.fail_worse and worse else 0)


main()
