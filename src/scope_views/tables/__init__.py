"""Rows added up for tables: durations, aggregate (groups or latest rows), inclusive (functions), slowest, tables (all
those of some streams). What is shown is numbers; their text is made by whoever shows them.
"""
