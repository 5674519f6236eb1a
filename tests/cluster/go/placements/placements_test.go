// Asks Kueue itself where pods go that it places by topology.
// It is compiled inside a copy of Kueue's package pkg/cache/scheduler, in the place of the tests there, because what it
// calls is not exported: see tests/update_placements.py.
package scheduler

import (
	"context"
	"encoding/json"
	"os"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/resources"
	utiltas "sigs.k8s.io/kueue/pkg/util/tas"
)

type kind struct {
	Name     string
	Count    int32
	Requests corev1.ResourceList
	Topology *kueue.PodSetTopologyRequest
}

// A job comes, or the one of that number ends.
type event struct {
	Pods []kind
	Ends *int
}

type question struct {
	Levels []string
	Nodes  []*corev1.Node
	Events []event
}

// Kind of pods → place → how many.
type answer map[kueue.PodSetReference]map[utiltas.TopologyDomainID]int32

func TestPlacements(t *testing.T) {
	asked, err := os.ReadFile(os.Getenv("QUESTIONS"))
	if err != nil {
		t.Fatal(err)
	}
	var questions []question
	if err := json.Unmarshal(asked, &questions); err != nil {
		t.Fatal(err)
	}
	told, err := os.Create(os.Getenv("ANSWERS"))
	if err != nil {
		t.Fatal(err)
	}
	defer told.Close()
	for _, each := range questions {
		if err := json.NewEncoder(told).Encode(answers(each)); err != nil {
			t.Fatal(err)
		}
	}
}

// What each job gets that comes; nothing where there is no room, and where one ends.
func answers(asked question) []answer {
	tree := newTopologyTree(asked.Levels, asked.Nodes, 1)
	snapshot := newTASFlavorSnapshot(logr.Discard(), "t", tree, nil, &defaultChecker{})
	var all []answer
	for _, each := range asked.Events {
		if each.Ends != nil {
			change(snapshot, asked.Events[*each.Ends].Pods, all[*each.Ends], subtract)
			all = append(all, nil)
			continue
		}
		got := place(snapshot, each.Pods)
		change(snapshot, each.Pods, got, add)
		all = append(all, got)
	}
	return all
}

func place(snapshot *TASFlavorSnapshot, pods []kind) answer {
	var wanted FlavorTASRequests
	for _, each := range pods {
		podSet := &kueue.PodSet{Name: kueue.PodSetReference(each.Name), Count: each.Count, TopologyRequest: each.Topology}
		request := TASPodSetRequests{
			PodSet:            podSet,
			Count:             each.Count,
			SinglePodRequests: resources.NewRequestsFromResourceList(each.Requests),
			Flavor:            "f",
			Implied:           each.Topology == nil,
		}
		if each.Topology != nil {
			request.PodSetGroupName = each.Topology.PodSetGroupName
		}
		wanted = append(wanted, request)
	}
	found := TASAssignmentsResult(snapshot.FindTopologyAssignmentsForFlavor(context.Background(), wanted))
	if found.Failure() != nil {
		return nil
	}
	got := answer{}
	for name, each := range found {
		got[name] = map[utiltas.TopologyDomainID]int32{}
		for _, domain := range each.TopologyAssignment.Domains {
			got[name][utiltas.DomainID(domain.Values)] = domain.Count
		}
	}
	return got
}

func change(snapshot *TASFlavorSnapshot, pods []kind, got answer, op usageOp) {
	for _, each := range pods {
		one := resources.NewRequestsFromResourceList(each.Requests)
		for place, count := range got[kueue.PodSetReference(each.Name)] {
			snapshot.updateTASUsage(place, one.ScaledUp(int64(count)), op, count)
		}
	}
}
