"""Certificates of the fleet: authority (signs), register (tokens and certificates, in SQL), enrolment (gRPC), and
admitted (who may call).
"""
