// Asks Kueue's own scheduler for the largest jobs of queues: while all other queues are idle, and in many states of them.
// It is compiled inside a copy of Kueue's package pkg/scheduler, together with ../scenarios/scenarios_test.go and the
// assignments_test.go of the version: see tests/update_quota_trees.py.
//
// A state is reached as Kueue reaches it: every job of it was admitted by the scheduler's own assignment of flavors,
// before the queues that are to be stopped were stopped.
package scheduler

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"sort"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	config "sigs.k8s.io/kueue/apis/config/v1beta2"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	schdcache "sigs.k8s.io/kueue/pkg/cache/scheduler"
	"sigs.k8s.io/kueue/pkg/resources"
	"sigs.k8s.io/kueue/pkg/scheduler/flavorassigner"
	"sigs.k8s.io/kueue/pkg/workload"
)

const (
	// More than any tree has of a resource.
	mostPods = 1000
	// More attempts than a job with pending flavors needs to try each flavor.
	mostAttempts = 40
	poolLabel    = "pool"
)

type question struct {
	Objects []json.RawMessage
	Fair    []config.PreemptionStrategy
	// runtime → the pods of its job for each size, the smallest first
	Sizes  map[string][][]podset
	Seed   int64
	States int
}

// How a job is admitted: at once, after the preemption of others, or not at all.
const (
	atOnceHow   = 'a'
	preemptsHow = 'p'
	notAtAllHow = '-'
)

const (
	// The others are filled in every order if they are so few, and else in as many random orders.
	fewQueues    = 3
	greedyStyles = 6
	randomStyles = 3
	highPriority = 1
)

// job is about a runtime in a queue; its strings have a letter for each size.
type job struct {
	Idle  string `json:"idle"`  // while all others are idle
	Worst string `json:"worst"` // the worst of each size in all states
	Owned string `json:"owned"` // the same if this queue may preempt nothing
	There string `json:"there"` // in the last state, if this queue may preempt nothing
}

// answer is about a queue.
type answer struct {
	Jobs  map[string]*job              `json:"jobs"`
	Usage map[string]map[string]string `json:"usage"` // of the others in the last state
}

// oracle is a tree of queues. Jobs of others come and go in a snapshot, as within a cycle of the scheduler.
type oracle struct {
	*player
	queues   map[string]*kueue.ClusterQueue
	names    []string
	snapshot *schdcache.Snapshot
	running  map[workload.Reference]*workload.Info
	hasStops bool
	sent     int
	lot      *rand.Rand
}

func newOracle(t *testing.T, q question) *oracle {
	o := &oracle{
		player: newPlayer(t, q.Fair),
		queues: map[string]*kueue.ClusterQueue{},
		lot:    rand.New(rand.NewSource(q.Seed)),
	}
	for number, raw := range q.Objects {
		var meta metav1.TypeMeta
		o.must(json.Unmarshal(raw, &meta))
		if meta.Kind != "ClusterQueue" {
			continue
		}
		var queue kueue.ClusterQueue
		o.must(json.Unmarshal(raw, &queue))
		o.queues[queue.Name] = &queue
		o.names = append(o.names, queue.Name)
		o.hasStops = o.hasStops || stopPolicy(&queue) != kueue.None
		written, err := json.Marshal(opened(&queue))
		o.must(err)
		q.Objects[number] = written
	}
	sort.Strings(o.names)
	o.install(q.Objects)
	o.begin()
	return o
}

func stopPolicy(queue *kueue.ClusterQueue) kueue.StopPolicy {
	return ptr.Deref(queue.Spec.StopPolicy, kueue.None)
}

func opened(queue *kueue.ClusterQueue) *kueue.ClusterQueue {
	found := queue.DeepCopy()
	found.Spec.StopPolicy = ptr.To(kueue.None)
	return found
}

// begin makes all queues idle, and lets all of them admit jobs.
func (o *oracle) begin() {
	snapshot, err := o.cache.Snapshot(o.ctx)
	o.must(err)
	o.snapshot, o.running = snapshot, map[workload.Reference]*workload.Info{}
}

// stopped runs a function while queues have their stop policies; HoldAndDrain evicts what runs there.
func (o *oracle) stopped(run func()) {
	if !o.hasStops {
		run()
		return
	}
	for _, info := range o.running {
		if stopPolicy(o.queues[string(info.ClusterQueue)]) != kueue.HoldAndDrain && !o.cache.AddOrUpdateWorkload(logr.Discard(), info.Obj) {
			o.Fatalf("the cache does not take %s", info.Obj.Name)
		}
	}
	for _, name := range o.names {
		o.must(o.cache.UpdateClusterQueue(logr.Discard(), o.queues[name].DeepCopy()))
	}
	snapshot, err := o.cache.Snapshot(o.ctx)
	o.must(err)
	o.snapshot = snapshot
	run()
	for key, info := range o.running {
		if stopPolicy(o.queues[string(info.ClusterQueue)]) != kueue.HoldAndDrain {
			o.must(o.cache.DeleteWorkload(logr.Discard(), key))
		}
	}
	for _, name := range o.names {
		o.must(o.cache.UpdateClusterQueue(logr.Discard(), opened(o.queues[name])))
	}
}

func (o *oracle) workload(queue string, priority int32, podsets ...kueue.PodSet) *workload.Info {
	o.sent++
	info := workload.NewInfo(&kueue.Workload{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:         namespace,
			Name:              fmt.Sprintf("w%06d", o.sent),
			UID:               types.UID(fmt.Sprintf("%06d", o.sent)),
			CreationTimestamp: metav1.NewTime(o.clock.Now()),
		},
		Spec: kueue.WorkloadSpec{
			QueueName: kueue.LocalQueueName(queue), Priority: ptr.To(priority), Active: ptr.To(true), PodSets: podsets,
		},
	})
	info.ClusterQueue = kueue.ClusterQueueReference(queue)
	return info
}

func pods(name string, count int32, requests corev1.ResourceList, selector map[string]string, tolerations []corev1.Toleration) kueue.PodSet {
	return kueue.PodSet{
		Name:  kueue.PodSetReference(name),
		Count: count,
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			NodeSelector: selector,
			Tolerations:  tolerations,
			Containers:   []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: requests}}},
		}},
	}
}

// attempt tries a job as often as Kueue does, alone, and gives its assignment, and whom it has to preempt before.
func (o *oracle) attempt(info *workload.Info) (*flavorassigner.Assignment, []*workload.Info) {
	if o.snapshot.ClusterQueue(info.ClusterQueue) == nil {
		return nil, nil
	}
	var gone []*workload.Info
	var undo []func()
	defer func() {
		for i := len(undo) - 1; i >= 0; i-- {
			undo[i]()
		}
	}()
	for range mostAttempts {
		assignment, targets := o.assignments(info, o.snapshot)
		mode := assignment.RepresentativeMode()
		if mode == flavorassigner.Fit {
			return &assignment, gone
		}
		if mode == flavorassigner.Preempt && len(targets) > 0 {
			var evicted []*workload.Info
			for _, target := range targets {
				evicted = append(evicted, target.WorkloadInfo)
			}
			undo = append(undo, o.snapshot.SimulateWorkloadRemoval(evicted))
			gone = append(gone, evicted...)
			info.LastAssignment = nil
			continue
		}
		if !assignment.LastState.PendingFlavors() {
			return nil, nil
		}
		state := assignment.LastState
		info.LastAssignment = &state
	}
	return nil, nil
}

func (o *oracle) how(info *workload.Info) byte {
	assignment, gone := o.attempt(info)
	if assignment == nil {
		return notAtAllHow
	}
	if len(gone) > 0 {
		return preemptsHow
	}
	return atOnceHow
}

// admit runs a job if Kueue admits it, and says whether that is so; it may preempt others if that is allowed.
func (o *oracle) admit(info *workload.Info, mayPreempt bool) bool {
	assignment, gone := o.attempt(info)
	if assignment == nil || (len(gone) > 0 && !mayPreempt) {
		return false
	}
	for _, each := range gone {
		o.snapshot.RemoveWorkload(each)
		delete(o.running, workload.Key(each.Obj))
	}
	wl := info.Obj.DeepCopy()
	workload.SetQuotaReservation(wl, &kueue.Admission{
		ClusterQueue: info.ClusterQueue, PodSetAssignments: toAPI(assignment),
	}, o.clock)
	admitted := workload.NewInfo(wl)
	o.snapshot.AddWorkload(admitted)
	o.running[workload.Key(wl)] = admitted
	return true
}

type quotaKey struct {
	flavor   string
	resource corev1.ResourceName
	nominal  int32
}

func (o *oracle) keys(queue string) []quotaKey {
	var found []quotaKey
	for _, group := range o.queues[queue].Spec.ResourceGroups {
		for _, flavor := range group.Flavors {
			for _, each := range flavor.Resources {
				found = append(found, quotaKey{string(flavor.Name), each.Name, int32(each.NominalQuota.Value())})
			}
		}
	}
	return found
}

// free is how many whole units a queue can still have of a resource of a flavor.
func free(queue *schdcache.ClusterQueueSnapshot, key quotaKey) int32 {
	name := resources.FlavorResource{Flavor: kueue.ResourceFlavorReference(key.flavor), Resource: key.resource}
	units := queue.Available(name).Int64()
	if key.resource == corev1.ResourceCPU {
		units /= 1000
	}
	return int32(units)
}

// fill admits jobs that take nothing but one resource of one flavor, until so much is taken or there is no more room.
func (o *oracle) fill(queue string, key quotaKey, limit int32, inOne bool, priority int32) {
	there := o.snapshot.ClusterQueue(kueue.ClusterQueueReference(queue))
	everywhere := []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	for limit > 0 {
		size := min(limit, free(there, key))
		if !inOne {
			size = min(size, 1)
		}
		if size <= 0 {
			return
		}
		only := pods("node", size, corev1.ResourceList{key.resource: resource.MustParse("1")},
			map[string]string{poolLabel: key.flavor}, everywhere)
		if !o.admit(o.workload(queue, priority, only), false) {
			return
		}
		limit -= size
	}
}

// disturb has a queue run random jobs, for which others may be preempted.
func (o *oracle) disturb(queue string) {
	requests := corev1.ResourceList{}
	for _, key := range o.keys(queue) {
		if o.lot.Intn(2) == 0 {
			requests[key.resource] = resource.MustParse([]string{"1", "1", "2"}[o.lot.Intn(3)])
		}
	}
	if len(requests) == 0 {
		return
	}
	everywhere := []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	o.admit(o.workload(queue, int32(o.lot.Intn(3)-1), pods("node", int32(1+o.lot.Intn(3)), requests, nil, everywhere)), true)
}

// order is one of all the orders of the others if they are few, and else a random one.
func (o *oracle) order(others []string, number int) []string {
	found := append([]string{}, others...)
	if len(others) > fewQueues {
		o.lot.Shuffle(len(found), func(i, j int) { found[i], found[j] = found[j], found[i] })
		return found
	}
	for i := len(found); i > 1; i-- { // the number in the factorial number system
		j := number % i
		number /= i
		found[i-1], found[j] = found[j], found[i-1]
	}
	return found
}

func orderCount(others []string) int {
	count := 1
	for n := 2; n <= min(len(others), fewQueues); n++ {
		count *= n
	}
	return count
}

// occupy brings the others into a state: the first ones are the worst that a greedy adversary finds.
func (o *oracle) occupy(target string, number int) {
	var others []string
	for _, name := range o.names {
		if name != target {
			others = append(others, name)
		}
	}
	orders := orderCount(others)
	style := number / orders
	if style >= greedyStyles {
		style = greedyStyles + o.lot.Intn(randomStyles)
	}
	order := o.order(others, number%orders)
	switch style {
	case 0, 1: // each takes all that it can, in one job or in small ones
		for _, name := range order {
			for _, key := range o.keys(name) {
				o.fill(name, key, mostPods, style == 0, highPriority)
			}
		}
	case 2: // the last ones take all, the others what is their own: nobody can reclaim that
		for position, name := range order {
			for _, key := range o.keys(name) {
				limit := key.nominal
				if position == len(order)-1 {
					limit = mostPods
				}
				o.fill(name, key, limit, true, highPriority)
			}
		}
	case 3: // what is their own first, and then all
		for _, limited := range []bool{true, false} {
			for _, name := range order {
				for _, key := range o.keys(name) {
					limit := int32(mostPods)
					if limited {
						limit = key.nominal
					}
					o.fill(name, key, limit, true, highPriority)
				}
			}
		}
	case 4: // all but the last take all
		for _, name := range order[:max(len(order)-1, 0)] {
			for _, key := range o.keys(name) {
				o.fill(name, key, mostPods, true, highPriority)
			}
		}
	case 5: // each takes what is its own
		for _, name := range order {
			for _, key := range o.keys(name) {
				o.fill(name, key, key.nominal, o.lot.Intn(2) == 0, highPriority)
			}
		}
	case 6: // anything
		for range 18 {
			if len(order) > 0 {
				o.disturb(order[o.lot.Intn(len(order))])
			}
		}
	case 7: // each and each flavor is as it is
		for _, name := range order {
			for _, key := range o.keys(name) {
				limit := []int32{0, key.nominal, mostPods, int32(o.lot.Intn(6))}[o.lot.Intn(4)]
				o.fill(name, key, limit, o.lot.Intn(2) == 0, int32(o.lot.Intn(3)-1))
			}
		}
	case 8: // anything, and then all that is left
		for range 8 {
			if len(order) > 0 {
				o.disturb(order[o.lot.Intn(len(order))])
			}
		}
		for _, name := range order {
			for _, key := range o.keys(name) {
				o.fill(name, key, mostPods, o.lot.Intn(2) == 0, int32(o.lot.Intn(3)-1))
			}
		}
	}
}

// states are as many as there are greedy ones, and so many random ones.
func (o *oracle) states(random int) int {
	return greedyStyles*orderCount(o.names[1:]) + random
}

// sizes gives how jobs of each size are admitted. It does not ask again where the worst is known.
func (o *oracle) sizes(queue string, sizes [][]podset, known string) string {
	found := []byte(known)
	for number, each := range sizes {
		if number < len(known) && known[number] == notAtAllHow {
			continue
		}
		var all []kueue.PodSet
		for _, one := range each {
			all = append(all, pods(one.Name, one.Count, one.Requests, nil, one.Tolerations))
		}
		how := o.how(o.workload(queue, 0, all...))
		if number < len(known) {
			found[number] = how
		} else {
			found = append(found, how)
		}
	}
	return string(found)
}

// harmless runs a function while a queue may preempt nothing.
func (o *oracle) harmless(queue string, run func()) {
	if found := o.snapshot.ClusterQueue(kueue.ClusterQueueReference(queue)); found != nil {
		before := found.Preemption
		defer func() { found.Preemption = before }()
		found.Preemption = kueue.ClusterQueuePreemption{
			ReclaimWithinCohort: kueue.PreemptionPolicyNever, WithinClusterQueue: kueue.PreemptionPolicyNever,
		}
	}
	run()
}

func worst(one, other string) string {
	found := []byte(one)
	for i := range found {
		if other[i] == notAtAllHow || (other[i] == preemptsHow && found[i] == atOnceHow) {
			found[i] = other[i]
		}
	}
	return string(found)
}

// usage is what all queues use now.
func (o *oracle) usage() map[string]map[string]string {
	all := map[string]map[resources.FlavorResource]int64{}
	for _, info := range o.running {
		queue := string(info.ClusterQueue)
		if stopPolicy(o.queues[queue]) == kueue.HoldAndDrain {
			continue
		}
		if all[queue] == nil {
			all[queue] = map[resources.FlavorResource]int64{}
		}
		for _, each := range info.Obj.Status.Admission.PodSetAssignments {
			for name, flavor := range each.Flavors {
				amount := each.ResourceUsage[name]
				all[queue][resources.FlavorResource{Flavor: flavor, Resource: name}] += amount.Value()
			}
		}
	}
	found := map[string]map[string]string{}
	for queue, amounts := range all {
		found[queue] = map[string]string{}
		for key, amount := range amounts {
			found[queue][fmt.Sprintf("%s/%s", key.Flavor, key.Resource)] = fmt.Sprint(amount)
		}
	}
	return found
}

func ask(t *testing.T, q question) map[string]*answer {
	o := newOracle(t, q)
	found := map[string]*answer{}
	for _, queue := range o.names {
		mine := &answer{Jobs: map[string]*job{}}
		found[queue] = mine
		o.stopped(func() {
			for runtime, sizes := range q.Sizes {
				idle := o.sizes(queue, sizes, "")
				mine.Jobs[runtime] = &job{Idle: idle, Worst: idle, Owned: idle}
			}
		})
		last := o.states(q.States) - 1
		for number := range last + 1 {
			o.begin()
			o.occupy(queue, number)
			mine.Usage = o.usage()
			o.stopped(func() {
				for runtime, sizes := range q.Sizes {
					each := mine.Jobs[runtime]
					each.Worst = worst(each.Worst, o.sizes(queue, sizes, each.Worst))
					o.harmless(queue, func() {
						each.Owned = worst(each.Owned, o.sizes(queue, sizes, each.Owned))
						if number == last {
							each.There = o.sizes(queue, sizes, "")
						}
					})
				}
			})
		}
		o.begin()
	}
	return found
}

// TestQuotas reads a JSON list of questions from one file, and writes the answers into another, a line each.
func TestQuotas(t *testing.T) {
	raw, err := os.ReadFile(os.Getenv("QUESTIONS"))
	if err != nil {
		t.Fatal(err)
	}
	var questions []question
	if err := json.Unmarshal(raw, &questions); err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(os.Getenv("ANSWERS"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, each := range questions {
		if err := json.NewEncoder(file).Encode(ask(t, each)); err != nil {
			t.Fatal(err)
		}
	}
}
