"""The way of a model through a conversion, one module a step: ``convert`` calls the others in order."""
