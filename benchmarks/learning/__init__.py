"""Strategies of continual learning, side by side: what they reach, and what they take: samples, seconds and bytes."""
