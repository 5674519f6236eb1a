"""A real node of the control plane: kubelet, containerd, runc, CNI plugins and CoreDNS, in namespaces of their own."""
