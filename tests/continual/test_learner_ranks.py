"""Several ranks learn what one process would learn from all their samples, whatever their shares are."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from continual.learning import sgd, torch, weights
from programs.rehearsal import together
from support import MPIEXEC, run_tree
from wilkins.tasks import continual

pytestmark = pytest.mark.needs("python:torch")

PROGRAM = Path(__file__).resolve().parent.parent / "programs" / "rehearsal" / "together.py"
