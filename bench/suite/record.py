# SPDX-License-Identifier: GPL-2.0-or-later
"""results.json as it grows (docs/BENCH.md). What is in it is valid at any time."""
import json
import os
import statistics


# Settings of ext4d on a device that was slowed down for all systems alike
ALL_ALIKE = ("throttled", "guest")


def plain(value):
    """Short numbers: six significant digits are more than any measurement here has."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value


class Metric:
    """One row of the table: values of each system and setting, a value for each round."""

    def __init__(self, name, label, unit, better):
        self.name, self.label, self.unit, self.better = name, label, unit, better
        self.results = {}

    def result(self, system, setting):
        return self.results.setdefault((system, setting), {
            "system": system, "setting": setting, "values": [], "median": None, "min": None, "max": None,
            "status": "ok", "reason": None, "ratio": None})

    def add(self, system, setting, value):
        result = self.result(system, setting)
        result["values"].append(value)
        result["median"] = statistics.median(result["values"])
        result["min"], result["max"] = min(result["values"]), max(result["values"])

    def end(self, system, setting, status, reason, bound=None):
        result = self.result(system, setting)
        result["status"], result["reason"] = status, reason
        if bound is not None:
            result["bound"] = bound

    def median(self, system="ext4d", setting="new"):
        result = self.results.get((system, setting))
        return result["median"] if result else None

    def as_json(self):
        for result in self.results.values():
            own = self.median("ext4d", self.setting_beside(result))
            if own and result["median"]:
                result["ratio"] = own / result["median"]
        return {"name": self.name, "label": self.label, "unit": self.unit, "better": self.better,
                "results": list(self.results.values())}

    def setting_beside(self, result):
        """The setting of ext4d on a device that was slowed down in the same way: what a result can be compared with."""
        for setting in ALL_ALIKE:
            if ("ext4d", setting) in self.results and (result["setting"] == setting or result["system"] in ("ext4", "fuse2fs", "raw")):
                return setting
        return self.default_setting()

    def default_setting(self):
        """What ext4d does unless told otherwise."""
        settings = [setting for system, setting in self.results if system == "ext4d"]
        return next((name for name in ("new", "x8") if name in settings), settings[0] if settings else None)


def beyond_noise(metric, new, old):
    """True: `new` is better than `old` by more than their spread, False: worse, None: noise forbids. Fewer than 3 rounds have no spread: 30 % is taken for it."""
    a, b = metric.results.get(("ext4d", new)), metric.results.get(("ext4d", old))
    if not a or not b or not a["values"] or not b["values"]:
        return None
    sign = 1 if metric.better == "higher" else -1
    difference = sign * (a["median"] - b["median"])
    noise = (a["max"] - a["min"] + b["max"] - b["min"]) / 2
    if min(len(a["values"]), len(b["values"])) < 3:
        noise = max(noise, 0.3 * b["median"])
    elif a["min"] > b["max"] or a["max"] < b["min"]:
        noise = 0  # not even the extremes meet
    return True if difference > noise else False if difference < -noise else None


class ExperimentRecord:
    def __init__(self, name, title, about, seed=None):
        self.head = {"name": name, "title": title, "about": about, "workload": "", "scale": None, "status": "ok",
                     "reason": None, "seconds": 0.0, "settings": {}, "seed": seed}
        self.metrics, self.counters, self.plots, self.checks, self.claims = {}, [], [], [], []

    def metric(self, name, label, unit, better="higher"):
        return self.metrics.setdefault(name, Metric(name, label, unit, better))

    def check(self, name, system, setting, round_, ok, text):
        self.checks.append({"name": name, "system": system, "setting": setting, "round": round_, "ok": bool(ok), "text": text})
        if not ok and system == "ext4d":
            self.fail(f"{name}, {system} {setting or ''}: {text}")

    def fail(self, reason):
        self.head["status"] = "failed"
        self.head["reason"] = self.head["reason"] or reason

    def skip(self, reason):
        self.head["status"], self.head["reason"] = "skipped", reason

    def claim(self, text, shown, evidence):
        self.claims.append({"text": text, "shown": shown, "evidence": evidence})

    def plot(self, name, title, kind, x, y, series, alt, lines=()):
        self.plots.append({"name": name, "title": title, "kind": kind, "x": x, "y": y, "series": series,
                           "lines": list(lines), "alt": alt})

    def as_json(self):
        return {**self.head, "metrics": [m.as_json() for m in self.metrics.values()], "counters": self.counters,
                "plots": self.plots, "checks": self.checks, "claims": self.claims}


def axis(label, unit=None, log=False, categories=None):
    made = {"label": label, "unit": unit, "log": log}
    if categories is not None:
        made["categories"] = categories
    return made


class Record:
    def __init__(self, path, head):
        self.path, self.head = path, head
        self.experiments = []

    def save(self, seconds, complete):
        self.head["seconds"], self.head["complete"] = seconds, complete
        whole = plain({**self.head, "experiments": [e.as_json() for e in self.experiments]})
        with open(self.path + ".new", "w", encoding="utf-8") as f:
            json.dump(whole, f, indent=1)
            f.write("\n")
        os.replace(self.path + ".new", self.path)
