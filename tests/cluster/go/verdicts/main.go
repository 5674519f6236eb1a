// Command verdicts says which connections a cluster's policies let through, with the engine of kube-network-policies:
// pkg/networkpolicy and plugins/npa-v1alpha1 of v1.1.0, in the order of cmd/kube-network-policies/npa-v1alpha1. Its
// informers are never started: they are filled with the objects on stdin.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/kube-network-policies/pkg/api"
	"sigs.k8s.io/kube-network-policies/pkg/network"
	"sigs.k8s.io/kube-network-policies/pkg/networkpolicy"
	"sigs.k8s.io/kube-network-policies/pkg/podinfo"
	admin "sigs.k8s.io/kube-network-policies/plugins/npa-v1alpha1"
	adminv1alpha1 "sigs.k8s.io/network-policy-api/apis/v1alpha1"
	adminfake "sigs.k8s.io/network-policy-api/pkg/client/clientset/versioned/fake"
	admininformers "sigs.k8s.io/network-policy-api/pkg/client/informers/externalversions"
)

// asked is what stands on stdin.
type asked struct {
	Namespaces                   []corev1.Namespace
	Nodes                        []corev1.Node
	Pods                         []corev1.Pod
	NetworkPolicies              []networkingv1.NetworkPolicy
	AdminNetworkPolicies         []adminv1alpha1.AdminNetworkPolicy
	BaselineAdminNetworkPolicies []adminv1alpha1.BaselineAdminNetworkPolicy
	// Addresses by name, as a cluster's DNS answered them.
	Domains map[string][]string
	Packets []packet
}

// packet opens a connection.
type packet struct {
	From, To string
	Protocol corev1.Protocol
	Port     int
}

// names resolves domains for rules that name some.
type names map[string][]string

func (n names) ContainsIP(domain string, ip net.IP) bool {
	return slices.Contains(n[domain], ip.String())
}

// clientPort is where connections come from: no policy asks.
const clientPort = 40000

func main() {
	var question asked
	decoder := json.NewDecoder(os.Stdin)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&question); err != nil {
		fail(err)
	}
	engine := engineFor(&question)
	verdicts := make([]bool, 0, len(question.Packets))
	for _, each := range question.Packets {
		family := corev1.IPv4Protocol
		if net.ParseIP(each.From).To4() == nil {
			family = corev1.IPv6Protocol
		}
		passes, err := engine.EvaluatePacket(context.Background(), &network.Packet{
			Family: family, SrcIP: net.ParseIP(each.From), DstIP: net.ParseIP(each.To),
			Proto: each.Protocol, SrcPort: clientPort, DstPort: each.Port,
		})
		if err != nil {
			fail(err)
		}
		verdicts = append(verdicts, passes)
	}
	if err := json.NewEncoder(os.Stdout).Encode(verdicts); err != nil {
		fail(err)
	}
}

func engineFor(question *asked) *networkpolicy.PolicyEngine {
	kubernetes := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	policies := admininformers.NewSharedInformerFactory(adminfake.NewSimpleClientset(), 0)
	namespaces, nodes, pods := kubernetes.Core().V1().Namespaces(), kubernetes.Core().V1().Nodes(), kubernetes.Core().V1().Pods()
	standard := kubernetes.Networking().V1().NetworkPolicies()
	above, below := policies.Policy().V1alpha1().AdminNetworkPolicies(), policies.Policy().V1alpha1().BaselineAdminNetworkPolicies()
	fill(namespaces.Informer(), question.Namespaces)
	fill(nodes.Informer(), question.Nodes)
	fill(pods.Informer(), question.Pods)
	fill(standard.Informer(), question.NetworkPolicies)
	fill(above.Informer(), question.AdminNetworkPolicies)
	fill(below.Informer(), question.BaselineAdminNetworkPolicies)
	who := podinfo.NewInformerProvider(pods, namespaces, nodes, nil)
	return networkpolicy.NewPolicyEngine(who, []api.PolicyEvaluator{
		admin.NewAdminNetworkPolicy(above, names(question.Domains)),
		networkpolicy.NewStandardNetworkPolicy("", namespaces, pods, standard),
		admin.NewBaselineAdminNetworkPolicy(below),
	})
}

func fill[T any](informer cache.SharedIndexInformer, objects []T) {
	for i := range objects {
		if err := informer.GetIndexer().Add(&objects[i]); err != nil {
			fail(err)
		}
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "verdicts:", err)
	os.Exit(1)
}
