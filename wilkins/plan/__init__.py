"""What is to be started: the task graph, and a plan of commands, ranks and channels."""
