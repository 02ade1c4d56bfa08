"""What exports read and keep: minutes whose totals are new, how far each export is, and whose turn it is to push."""
