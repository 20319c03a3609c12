# SPDX-License-Identifier: GPL-2.0-or-later
"""What is going on, and how long it will take: one line that is rewritten on a terminal, one line a step elsewhere."""
import sys
import time


def clock(seconds):
    seconds = int(seconds + 0.5)
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60:02} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60:02} min"


class Progress:
    """Steps are known beforehand with a guess; what steps of the same kind took replaces the guess."""

    def __init__(self):
        self.begin = time.monotonic()
        self.planned = []  # (kind, guess)
        self.done = 0
        self.took = {}
        self.tty = sys.stdout.isatty()
        self.shown = False

    def plan(self, kind, guess):
        self.planned.append((kind, guess))

    def left(self):
        total = 0.0
        for kind, guess in self.planned[self.done:]:
            took = self.took.get(kind)
            total += sum(took) / len(took) if took else guess
        return total

    def step(self, text):
        self.show(f"[{self.done + 1}/{len(self.planned)}] {text} - about {clock(self.left())} left")

    def detail(self, text):
        """What a step that is under way is at."""
        self.show(f"[{self.done + 1}/{len(self.planned)}] {text}")

    def show(self, line):
        if self.tty:
            sys.stdout.write("\r\033[K" + line[:110])
            self.shown = True
        else:
            sys.stdout.write(line + "\n")
        sys.stdout.flush()

    def end(self, kind, seconds):
        self.took.setdefault(kind, []).append(seconds)
        self.done += 1

    def drop(self, first, count):
        """Steps that will not be done: `count` of them, `first` steps from now on."""
        del self.planned[self.done + first:self.done + first + count]

    def clear(self):
        if self.tty and self.shown:
            sys.stdout.write("\r\033[K")
            sys.stdout.flush()
            self.shown = False

    def elapsed(self):
        return time.monotonic() - self.begin
