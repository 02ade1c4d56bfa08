"""Code that agent and server share: limits, framing, credentials, addresses, channels, background work.

Also the format of the local bus, which the agent writes and the command line reads.

Agent and server do not import each other; what both must agree on is defined only here or in proto/.
"""
