"""Two samples of a stream's rows compared: which columns differ most, and how sure that is.

statistics (distances of distributions, and how likely chance makes them); compare (the columns in order);
frames (those of stacks); longer (what the time was spent on that rows took longer).
"""
