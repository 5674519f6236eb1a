"""audit/*: existing objects that admission policies or Pod Security levels would reject if a user created them today.

`mpigen audit` runs these checks on the export of a cluster. The API server evaluates policies only for requests, so
objects from before a policy, or from an hour without it, stay.

An existing object shows neither the request nor the user. So each object is judged as the request of a member of the
team to create it: a user without groups and without permissions on cluster-scoped resources. The values that
controllers wrote after the creation are left out. A validation whose result depends on the user is unknown. Policies
that read the user do not judge objects of controllers and of the platform.
"""
