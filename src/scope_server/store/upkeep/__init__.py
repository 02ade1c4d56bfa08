"""Background work of the store: `upkeep` runs jobs in turn; `chores` has the jobs of rows and rollups."""
