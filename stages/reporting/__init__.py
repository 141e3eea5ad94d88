"""The parts of the report: what is read, what is checked, what is drawn."""
