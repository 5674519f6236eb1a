"""Checks policy/*: admission policies and their cases, and namespaces that are excepted from them."""
