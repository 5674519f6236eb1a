// Plays scenarios on Kueue's own scheduler, caches and queues, with a fake client in the place of an API server.
// It is compiled inside a copy of Kueue's package pkg/scheduler, in the place of the tests there, because what it calls
// is not exported: see tests/update_scenarios.py. What the workload controller would do, play does at once: a job that
// is admitted leaves the queue, one that is evicted gives back its quota and comes back. The clock gives no moment twice.
package scheduler

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	config "sigs.k8s.io/kueue/apis/config/v1beta2"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	qcache "sigs.k8s.io/kueue/pkg/cache/queue"
	schdcache "sigs.k8s.io/kueue/pkg/cache/scheduler"
	expectations "sigs.k8s.io/kueue/pkg/scheduler/preemption/expectations"
	utiltesting "sigs.k8s.io/kueue/pkg/util/testing"
	"sigs.k8s.io/kueue/pkg/workload"
)

const (
	namespace = "default"
	// Jobs that drive one another out for ever are given up.
	mostCycles = 400
)

type podset struct {
	Name        string
	Count       int32
	Requests    corev1.ResourceList
	Tolerations []corev1.Toleration
}

type step struct {
	Name, Queue, Finish string
	Priority            int32
	Podsets             []podset
}

type scenario struct {
	Objects []json.RawMessage
	Steps   []step
	Fair    []config.PreemptionStrategy
}

type outcome struct {
	State   string                       `json:"state"`
	Flavors map[string]map[string]string `json:"flavors,omitempty"`
	History []string                     `json:"history,omitempty"`
}

// atOnce runs what the scheduler would do beside the cycle.
type atOnce struct{}

func (atOnce) Run(do func()) { do() }

type ticking struct {
	clock.Clock
	now time.Time
}

func (t *ticking) Now() time.Time {
	t.now = t.now.Add(time.Second)
	return t.now
}

func (t *ticking) Since(then time.Time) time.Duration { return t.now.Sub(then) }

// patience is after how many cycles in which nothing changes nothing will: Kueue tries jobs again for ever where the
// order is strict, or flavors are left. There is a number for each step; after the last one they begin anew.
func patience(t *testing.T) []int {
	var cycles []int
	for _, written := range strings.Split(os.Getenv("PATIENCE"), ",") {
		number, err := strconv.Atoi(written)
		if err != nil {
			t.Fatal(err)
		}
		cycles = append(cycles, number)
	}
	return cycles
}

// player is Kueue, as far as a scenario needs it.
type player struct {
	*testing.T
	ctx       context.Context
	clock     *ticking
	client    client.Client
	cache     *schdcache.Cache
	queues    *qcache.Manager
	requeue   func(context.Context) int
	expected  interface{ seen(*kueue.Workload) }
	scheduler *Scheduler
	outcomes  map[string]*outcome
	stopped   map[kueue.ClusterQueueReference]bool
	patience  []int
	steps     int
}

type observer func(*kueue.Workload)

func (o observer) seen(wl *kueue.Workload) { o(wl) }

func newPlayer(t *testing.T, fair []config.PreemptionStrategy) *player {
	p := &player{
		T:        t,
		ctx:      ctrl.LoggerInto(context.Background(), logr.Discard()),
		clock:    &ticking{Clock: clock.RealClock{}, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)},
		outcomes: map[string]*outcome{},
		stopped:  map[kueue.ClusterQueueReference]bool{},
		patience: patience(t),
	}
	p.client = utiltesting.NewClientBuilder().
		WithObjects(utiltesting.MakeNamespace(namespace)).
		WithStatusSubresource(&kueue.Workload{}).
		WithInterceptorFuncs(interceptor.Funcs{SubResourcePatch: utiltesting.TreatSSAAsStrategicMerge}).
		Build()
	store := expectations.New()
	p.expected = observer(func(wl *kueue.Workload) {
		store.ObservedUID(logr.Discard(), client.ObjectKeyFromObject(wl), wl.UID)
	})
	p.cache = schdcache.New(p.client)
	queues, requeuer := qcache.NewManagerForUnitTestsWithRequeuer(p.client, p.cache, qcache.WithPreemptionExpectations(store))
	p.queues, p.requeue = queues, requeuer.ProcessRequeues
	var sharing *config.FairSharing
	if len(fair) > 0 {
		sharing = &config.FairSharing{PreemptionStrategies: fair}
	}
	p.scheduler = New(p.queues, p.cache, p.client, &utiltesting.EventRecorder{},
		WithFairSharing(sharing), WithClock(t, p.clock), WithPreemptionExpectations(store))
	p.scheduler.setAdmissionRoutineWrapper(atOnce{})
	return p
}

func (p *player) must(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

// install adds flavors first, then cohorts, then queues, whatever their order.
func (p *player) install(objects []json.RawMessage) {
	for _, kind := range []string{"ResourceFlavor", "Cohort", "ClusterQueue"} {
		for _, raw := range objects {
			var meta metav1.TypeMeta
			p.must(json.Unmarshal(raw, &meta))
			if meta.Kind == kind {
				p.installOne(kind, raw)
			}
		}
	}
}

func (p *player) installOne(kind string, raw json.RawMessage) {
	switch kind {
	case "ResourceFlavor":
		var flavor kueue.ResourceFlavor
		p.must(json.Unmarshal(raw, &flavor))
		p.cache.AddOrUpdateResourceFlavor(logr.Discard(), &flavor)
	case "Cohort":
		var cohort kueue.Cohort
		p.must(json.Unmarshal(raw, &cohort))
		p.must(p.cache.AddOrUpdateCohort(&cohort))
		p.queues.AddOrUpdateCohort(p.ctx, &cohort)
	case "ClusterQueue":
		var queue kueue.ClusterQueue
		p.must(json.Unmarshal(raw, &queue))
		p.stopped[kueue.ClusterQueueReference(queue.Name)] = ptr.Deref(queue.Spec.StopPolicy, kueue.None) != kueue.None
		p.must(p.client.Create(p.ctx, &queue))
		p.must(p.cache.AddClusterQueue(p.ctx, &queue))
		p.must(p.queues.AddClusterQueue(p.ctx, &queue))
		door := kueue.LocalQueue{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: queue.Name},
			Spec:       kueue.LocalQueueSpec{ClusterQueue: kueue.ClusterQueueReference(queue.Name)},
		}
		p.must(p.client.Create(p.ctx, &door))
		p.must(p.cache.AddLocalQueue(&door))
		p.must(p.queues.AddLocalQueue(p.ctx, &door))
	}
}

func (p *player) get(name string) *kueue.Workload {
	var wl kueue.Workload
	p.must(p.client.Get(p.ctx, types.NamespacedName{Namespace: namespace, Name: name}, &wl))
	return &wl
}

func (p *player) send(number int, s step) {
	wl := &kueue.Workload{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:         namespace,
			Name:              s.Name,
			UID:               types.UID(fmt.Sprintf("%04d", number)),
			CreationTimestamp: metav1.NewTime(p.clock.Now()),
		},
		Spec: kueue.WorkloadSpec{QueueName: kueue.LocalQueueName(s.Queue), Priority: ptr.To(s.Priority), Active: ptr.To(true)},
	}
	for _, pods := range s.Podsets {
		resources := corev1.ResourceRequirements{Requests: pods.Requests}
		wl.Spec.PodSets = append(wl.Spec.PodSets, kueue.PodSet{
			Name:  kueue.PodSetReference(pods.Name),
			Count: pods.Count,
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				Tolerations: pods.Tolerations,
				Containers:  []corev1.Container{{Name: "c", Resources: resources}},
			}},
		})
	}
	p.must(p.client.Create(p.ctx, wl))
	p.outcomes[s.Name] = &outcome{State: "waits"}
	p.must(p.queues.AddOrUpdateWorkload(logr.Discard(), p.get(s.Name)))
}

func (p *player) finish(name string) {
	wl, key := p.get(name), workload.Reference(namespace+"/"+name)
	p.outcomes[name].State = "finished"
	p.outcomes[name].History = append(p.outcomes[name].History, "finished")
	p.must(p.client.Delete(p.ctx, wl))
	p.queues.QueueAssociatedInadmissibleWorkloadsAfter(p.ctx, key, func() {
		_ = p.cache.DeleteWorkload(logr.Discard(), key) // one that waits is not there
	})
	p.queues.DeleteWorkload(logr.Discard(), key)
}

// settle runs cycle after cycle until nothing changes, and says whether that came to an end.
func (p *player) settle() bool {
	idle, patience := 0, p.patience[p.steps%len(p.patience)]
	p.steps++
	for range mostCycles {
		before := p.waiting()
		if !p.hasHeads() || idle > patience {
			if p.requeue(p.ctx) == 0 {
				return true
			}
			idle = 0
			continue
		}
		ctx, cancel := context.WithTimeout(p.ctx, time.Second)
		go p.queues.CleanUpOnContext(ctx)
		p.scheduler.schedule(ctx)
		cancel()
		idle++
		if p.follow() || !reflect.DeepEqual(before, p.waiting()) {
			idle = 0
		}
	}
	return false
}

// hasHeads says whether the scheduler finds a job to try; it does not look into queues that are stopped.
func (p *player) hasHeads() bool {
	for queue := range p.queues.Dump() {
		if !p.stopped[queue] {
			return true
		}
	}
	return false
}

// waiting is what is in the queues, in an order that does not change.
func (p *player) waiting() []map[kueue.ClusterQueueReference][]workload.Reference {
	all := []map[kueue.ClusterQueueReference][]workload.Reference{p.queues.Dump(), p.queues.DumpInadmissible()}
	for _, each := range all {
		for _, names := range each {
			sort.Slice(names, func(i, j int) bool { return names[i] < names[j] })
		}
	}
	return all
}

// follow does what the workload controller does after a cycle, and says whether there was anything to do.
func (p *player) follow() bool {
	var list kueue.WorkloadList
	p.must(p.client.List(p.ctx, &list))
	sort.Slice(list.Items, func(i, j int) bool { return list.Items[i].UID < list.Items[j].UID })
	changed := false
	for i := range list.Items {
		wl := &list.Items[i]
		if !workload.HasQuotaReservation(wl) {
			continue
		}
		if apimeta.IsStatusConditionTrue(wl.Status.Conditions, kueue.WorkloadEvicted) {
			p.stop(wl)
			changed = true
		} else if o := p.outcomes[wl.Name]; o.State != "admitted" {
			o.State, o.History = "admitted", append(o.History, "admitted")
			p.queues.DeleteWorkload(logr.Discard(), workload.Key(wl))
			p.cache.AddOrUpdateWorkload(logr.Discard(), wl.DeepCopy())
			changed = true
		}
	}
	return changed
}

func (p *player) stop(wl *kueue.Workload) {
	o := p.outcomes[wl.Name]
	o.State, o.History = "waits", append(o.History, "preempted")
	p.expected.seen(wl)
	workload.UnsetQuotaReservationWithCondition(wl, "Pending", "evicted", p.clock.Now())
	p.must(p.client.Status().Update(p.ctx, wl))
	p.queues.QueueAssociatedInadmissibleWorkloadsAfter(p.ctx, workload.Key(wl), func() {
		p.must(p.cache.DeleteWorkload(logr.Discard(), workload.Key(wl)))
		p.must(p.queues.AddOrUpdateWorkloadWithoutLock(logr.Discard(), p.get(wl.Name)))
	})
}

// play gives what became of each job; nil, if the jobs drive one another out for ever.
func play(t *testing.T, s scenario) map[string]*outcome {
	p := newPlayer(t, s.Fair)
	p.install(s.Objects)
	for number, each := range s.Steps {
		if each.Finish != "" {
			p.finish(each.Finish)
		} else {
			p.send(number, each)
		}
		if !p.settle() {
			return nil
		}
	}
	for name, o := range p.outcomes {
		if o.State != "admitted" {
			continue
		}
		o.Flavors = map[string]map[string]string{}
		for _, pods := range p.get(name).Status.Admission.PodSetAssignments {
			flavors := map[string]string{}
			for resource, flavor := range pods.Flavors {
				flavors[string(resource)] = string(flavor)
			}
			o.Flavors[string(pods.Name)] = flavors
		}
	}
	return p.outcomes
}

// TestScenarios plays a JSON list of scenarios from one file, and writes what became of them into another, a line each.
func TestScenarios(t *testing.T) {
	raw, err := os.ReadFile(os.Getenv("QUESTIONS"))
	if err != nil {
		t.Fatal(err)
	}
	var scenarios []scenario
	if err := json.Unmarshal(raw, &scenarios); err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(os.Getenv("ANSWERS"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, each := range scenarios {
		if err := json.NewEncoder(file).Encode(play(t, each)); err != nil {
			t.Fatal(err)
		}
	}
}
