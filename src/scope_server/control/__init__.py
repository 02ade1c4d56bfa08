"""The server's side of scope.v1.AgentControl: which agents are connected, and what they are to record."""
