"""This machine's identity: membership (its certificate, and its server), introduction (knows the server
without a root to check it with), join (gets the first certificate), renewal (gets the next ones)."""
