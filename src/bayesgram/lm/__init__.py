"""Language models of n-grams: estimated, stored, searched, mixed, adapted and exported."""
