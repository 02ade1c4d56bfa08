"""The agent's own gRPC service, scope.v1.AgentControl: starts and stops tasks."""
