"""Reports about releases for the people who decide about them. Sees released data, and private numbers it is handed."""
