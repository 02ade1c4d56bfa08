"""How the agent is told what to record: scope.v1.AgentControl."""
