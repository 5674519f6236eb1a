"""Updates of objects, field by field: what a real control plane answers, and what mpigen says."""
