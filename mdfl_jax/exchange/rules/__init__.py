"""Rules of aggregation that attackers cannot mislead easily, each written for one client (`neighbourhood`)."""
