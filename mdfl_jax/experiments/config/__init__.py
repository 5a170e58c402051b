"""What a study is: the fields of its configuration, their checks, and the points of its sweep."""
