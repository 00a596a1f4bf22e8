"""Plans: what a release would be worth, from public text and assumptions alone, before anything is spent."""
