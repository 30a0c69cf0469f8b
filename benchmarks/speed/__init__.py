"""The speed of everything that moves steps, side by side: `python -m benchmarks speed`."""
