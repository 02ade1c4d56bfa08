"""`scope tail --local`: reader (the socket of the local bus), losses (what it missed), tailing (to the outputs)."""
