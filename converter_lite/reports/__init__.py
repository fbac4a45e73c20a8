"""Reports about a conversion, for people and for programs."""
