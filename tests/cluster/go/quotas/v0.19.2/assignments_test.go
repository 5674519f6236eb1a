package scheduler

import (
	"github.com/go-logr/logr"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	schdcache "sigs.k8s.io/kueue/pkg/cache/scheduler"
	"sigs.k8s.io/kueue/pkg/scheduler/flavorassigner"
	"sigs.k8s.io/kueue/pkg/scheduler/preemption"
	"sigs.k8s.io/kueue/pkg/workload"
)

// assignments calls what the scheduler calls for each head of a queue.
func (p *player) assignments(info *workload.Info, snapshot *schdcache.Snapshot) (flavorassigner.Assignment, []*preemption.Target) {
	return p.scheduler.getAssignments(p.ctx, info, snapshot)
}

func toAPI(assignment *flavorassigner.Assignment) []kueue.PodSetAssignment {
	return assignment.ToAPI(logr.Discard())
}
