"""The agent: runs tasks on this machine and sends what they record to the server."""
