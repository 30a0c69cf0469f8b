"""Batch jobs: what a workflow asks of a scheduler, the script that says so, and its submission through PSI/J."""
