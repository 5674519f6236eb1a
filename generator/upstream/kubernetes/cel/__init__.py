"""CEL as the API server compiles, checks and evaluates it, by Google's CEL."""
