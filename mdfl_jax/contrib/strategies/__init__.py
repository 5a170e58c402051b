"""Further movement strategies: how a mobile client chooses the place for which it heads."""
