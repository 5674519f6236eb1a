"""Training runtimes: pure builders. The construct that admins subclass is `components.runtimes.MpiRuntime`.

| file                | part of the YAML                                                                          |
| ------------------- | ----------------------------------------------------------------------------------------- |
| training_runtime.py | the object: `mlPolicy`, the JobSet, the Jobs `node` and `launcher`, `env` of the launcher  |
| pods.py             | the pods of both Jobs with all containers, mounts and volumes                             |
| hosts.py            | the defaults, `resources`, `numProcPerNode`, and the networks in `annotations`            |
| pod_scripts.py      | `command` of init containers, assembled from the shell scripts in the folder `scripts`    |

facts/environment.yaml has the variables of `env`.
"""
