"""Paddle 3's programs: PIR in a JSON file, read into the program that older files hold."""
