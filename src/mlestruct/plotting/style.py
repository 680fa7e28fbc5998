"""Colours and dashes that all pictures share; they also differ in grey and for the colour-blind."""

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
DASHES = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (4, 1, 1, 1)), (0, (7, 2, 2, 2)), (0, (2, 2)))
GREY = "#8c8c8c"
GRID = "#e6e6e6"
