"""What a conversion did, for people and for programs."""
