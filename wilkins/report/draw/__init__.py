"""Pictures of timelines and task graphs, as SVG or PNG. Needs matplotlib: the extra ``wilkins[draw]``."""
