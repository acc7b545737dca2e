"""What ``bench --peers`` measures: one file for each engine, all with the same three numbers."""
