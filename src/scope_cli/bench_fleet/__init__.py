"""`scope bench fleet`: many agents in one process, real sessions over mutual TLS, and one server.

In the order of a run: server (the server and its PostgreSQL) - agent (an agent without probes) - fleet (all of them) -
control (starts of tasks meanwhile) - measure (idle, rows, a restart) - tls (what TLS costs).
"""
