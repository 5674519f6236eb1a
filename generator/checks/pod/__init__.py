"""pod/*: the API server's validation of pod templates, in objects of any kind.

Rules about a single field are in the schemas: generator/schemas/enforced.yaml. mpigen validates built-in kinds with
these schemas, and `pod/field` applies them to the pod templates of custom resources. The other modules of this package
compare several fields.
"""
