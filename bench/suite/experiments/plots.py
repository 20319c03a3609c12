# SPDX-License-Identifier: GPL-2.0-or-later
"""Series for the plots, from the record."""


def merge_hists(record, name, setting):
    """The histogram of all rounds of a setting together."""
    total = {}
    for c in record.counters:
        if c["setting"] == setting:
            for bound, n in c["hist"].get(name, {}).items():
                total[bound] = total.get(bound, 0) + n
    return total


def size_text(bound):
    """Upper bounds are a power of two less one: 8191 is what is below 8 KiB."""
    kib = (bound + 1) / 1024
    return f"<{kib:g} KiB" if kib < 1024 else f"<{kib / 1024:g} MiB"


def hist_bars(record, name, settings, labels):
    """(categories, series) of one bar for each size class and setting."""
    hists = {s: merge_hists(record, name, s) for s in settings}
    bounds = sorted({b for h in hists.values() for b in h})
    series = [{"label": labels[s], "system": "ext4d", "setting": s,
               "points": [[i, hists[s].get(b, 0)] for i, b in enumerate(bounds)]} for s in settings]
    return [size_text(b) for b in bounds], series


def sums(record, setting, *names):
    """Counters of a setting, added up over all rounds; gauges: the extreme (the lowest of a minimum, else the highest)."""
    out = []
    for name in names:
        values = [c["delta"][name] for c in record.counters if c["setting"] == setting and name in c["delta"]]
        if not values:
            out.append(0)
        elif name.endswith("_min"):
            out.append(min(values))
        elif name.endswith("_max"):
            out.append(max(values))
        else:
            out.append(sum(values))
    return out


def percent(new, old):
    return f"{(new / old - 1) * 100:+.1f} %" if new and old else "not measured"
