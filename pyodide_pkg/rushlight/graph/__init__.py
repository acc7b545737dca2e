"""Stage 3: the model as a verified document of named operations."""
