"""What changed between releases, or between public text and a release."""
