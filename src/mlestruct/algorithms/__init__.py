"""Arrays in, arrays out: what structures and public questions are computed with."""
