"""What is shown of plans, graphs and runs: tables, pictures, timelines, predictions."""
