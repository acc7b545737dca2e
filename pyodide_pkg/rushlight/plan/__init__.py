"""Stage 4: a verified graph becomes memory-planned dispatches."""
