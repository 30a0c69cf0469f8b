"""Pictures of timelines and task graphs, each as the text of an SVG: for a file, a page or a notebook."""
