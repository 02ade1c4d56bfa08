"""The agent's end of scope.v1.Session: link (the connection) - attend (what is wanted) - upload (what was recorded)."""
