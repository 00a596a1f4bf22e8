"""The page of `bayesgram serve`: type with releases, browse, explain and plan them."""
