"""Rows added up for tables: durations, aggregate (groups or latest rows), inclusive (functions), slowest, tables (all
those of some streams); unusual tells what is special about single rows. What is shown is numbers; their text is made by
whoever shows them.
"""
