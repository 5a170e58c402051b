"""Further radios: drones above streets, and the rates of IEEE 802.11p and of 5G sidelinks."""
