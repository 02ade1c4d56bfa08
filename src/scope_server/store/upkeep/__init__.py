"""What the store has done in the background: `upkeep` does jobs in turn, `chores` are those that are no others'."""
