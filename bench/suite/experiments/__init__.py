# SPDX-License-Identifier: GPL-2.0-or-later
"""All experiments, in the order in which they run."""
from suite.experiments.budget import Budget
from suite.experiments.md import Md
from suite.experiments.premap import Premap
from suite.experiments.sync import SyncPasses
from suite.experiments.balance import Balance
from suite.experiments.bump import Bump
from suite.experiments.users import USERS

ALL = [Budget, Premap, SyncPasses, Balance, Bump, Md, *USERS]
