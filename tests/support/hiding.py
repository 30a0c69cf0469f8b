"""A plugin of pytest: as if the modules that ``WILKINS_TEST_WITHOUT`` names were not installed."""

from __future__ import annotations

import os
import sys

for _name in os.environ.get("WILKINS_TEST_WITHOUT", "").split():
    sys.modules[_name] = None  # type: ignore[assignment]
