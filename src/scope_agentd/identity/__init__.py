"""This machine's identity: membership (its certificate, and its server), join (gets the first one), renewal."""
