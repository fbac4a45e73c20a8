"""What each device can compute in integers: tables, no code."""
