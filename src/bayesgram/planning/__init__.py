"""Plans: what a release would be worth, from public text and assumptions, before spending."""
