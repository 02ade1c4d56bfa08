"""What is stored, shown as it is stored: to many viewers with one query."""
