"""Totals of rows in groups and steps of time: counts, sums, percentiles, and heatmaps of a column.

`cells` reads what is computed of a group; `question` is a checked question. It is answered from rollups, if these have
the answer (`of_rollups`), or from a bounded number of rows (`of_rows`); `reader` decides and gives texts for keys.
`heatmap` is the distribution of a column over time.
"""
