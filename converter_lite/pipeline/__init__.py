"""The steps of a conversion, one module each: ``convert`` calls the others in order."""
