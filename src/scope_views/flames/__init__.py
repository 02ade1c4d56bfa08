"""Flame graphs: stacks with weights (`folded` adds up a stream's rows) make one tree, from which all formats come.

stacks (what is added up; ragged: rows of different lengths), tree (the model); arrow (columns, for programs), text
(folded stacks, for other tools), svg (a picture for a browser), pprof and speedscope (files for these programs).
"""
