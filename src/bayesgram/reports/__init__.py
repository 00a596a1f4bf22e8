"""Reports about releases, for the people who decide about them."""
