"""Test cases for admission policies: the files of users, and the cases of mpigen itself."""
