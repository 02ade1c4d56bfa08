"""People: their accounts, what they may do, how they show who they are, and the log of what they did."""
