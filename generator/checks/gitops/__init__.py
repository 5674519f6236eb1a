"""gitops/*: Applications of Argo CD and Kustomizations of Flux, judged by the files of their repository."""
