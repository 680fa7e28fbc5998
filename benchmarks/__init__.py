"""Side-by-side measurements: ratios within one run."""
