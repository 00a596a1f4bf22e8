"""Post-processing of noisy counts: shrinkage and pooling. Sees measurements and public text, never a user."""
