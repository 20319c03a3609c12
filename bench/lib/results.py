# SPDX-License-Identifier: GPL-2.0-or-later
"""results.json of bench/run.sh (docs/BENCH.md): reading it, and how its numbers are written for people."""
import json

SCHEMA = 1
SYSTEMS = {
    "ext4d": "ext4d",
    "ext4": "kernel ext4",
    "fuse2fs": "fuse2fs",
    "raw": "raw device",
    "null": "null FUSE server",
}


class Problem(Exception):
    """Something that the user must know; its text is the whole message."""


def _need(ok, path, what):
    if not ok:
        raise Problem(f"{path}: {what}")


def load(path):
    """The object in `path`, checked as far as its readers depend on it."""
    try:
        with open(path, encoding="utf-8") as f:
            data = json.load(f)
    except OSError as e:
        raise Problem(f"{path}: {e.strerror}") from e
    except ValueError as e:
        raise Problem(f"{path}: not JSON: {e}") from e
    _need(isinstance(data, dict) and "schema" in data, path, "not a results.json")
    _need(data["schema"] == SCHEMA, path, f"schema {data['schema']}, and only {SCHEMA} is known here")
    _need(isinstance(data.get("experiments"), list), path, "no list of experiments")
    for e in data["experiments"]:
        _need(isinstance(e, dict) and isinstance(e.get("name"), str), path, "an experiment without a name")
        for m in e.get("metrics") or []:
            _need(isinstance(m.get("name"), str), path, f"{e['name']}: a metric without a name")
            _need(isinstance(m.get("results"), list), path, f"{e['name']}: {m['name']}: no results")
        for p in e.get("plots") or []:
            _need(isinstance(p.get("name"), str), path, f"{e['name']}: a plot without a name")
            _need(isinstance(p.get("series"), list), path, f"{e['name']}: {p['name']}: no series")
    return data


def number(v):
    """Three digits that count, thousands apart: 0.0123, 4.56, 78.9, 12,345."""
    if v is None:
        return "–"
    if isinstance(v, bool) or not isinstance(v, (int, float)):
        return str(v)
    a = abs(v)
    if a != a or a == float("inf"):
        return "–"
    if isinstance(v, int) or a >= 100:
        return f"{v:,.0f}"
    if a >= 10:
        return f"{v:.1f}"
    if a >= 1:
        return f"{v:.2f}"
    return f"{v:.3g}"


def with_unit(v, unit):
    return number(v) + (f" {unit}" if unit and v is not None else "")


def ratio(v):
    return "–" if v is None else f"{v:.2f}×" if v < 10 else f"{v:.0f}×"


def who(result):
    """'ext4d, old', 'kernel ext4'."""
    name = SYSTEMS.get(result.get("system"), str(result.get("system")))
    setting = result.get("setting")
    return f"{name}, {setting}" if setting else name


def find(metric, system, setting=None):
    """The result of that system (and setting, if given) of a metric, or None."""
    for r in metric["results"]:
        if r.get("system") == system and (setting is None or r.get("setting") == setting):
            return r
    return None
