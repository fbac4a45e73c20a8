"""INI configuration: one declarative table, its parser, and the templates made from it."""
