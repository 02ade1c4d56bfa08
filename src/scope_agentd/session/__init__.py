"""The agent's side of scope.v1.Session: link (the connection), attend (wanted tasks, reports), upload (records),
acknowledged (what was answered)."""
