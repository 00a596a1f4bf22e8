"""What may leave the building: sees a Release, never a user. A test keeps private code out of here."""
