"""What is known before any private text is read: the vocabulary and the prior."""
