"""Stage 5: executors. Each runs the same graph and must give the same answer."""
