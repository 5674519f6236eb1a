"""pod/*: the API server's validation of pod templates, in objects of any kind.

The rules that concern one field are schemas: generator/schemas/enforced.yaml. Built-in kinds have these schemas, and
`pod/field` applies them to the pod templates of custom resources. The other modules compare fields with each other.
"""
