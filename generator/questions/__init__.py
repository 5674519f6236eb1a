"""The questions of `mpigen can-i` and `mpigen reach`, and the answers that a file expects."""
