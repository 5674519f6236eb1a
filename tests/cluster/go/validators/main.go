// Command validators prints for each of the Jobs and Pods on stdin, one JSON object per line, why the API server rejects
// its creation, or the object that the API server stores. It decodes as strictly as `fieldValidation=Strict`, sets defaults
// and runs the create strategies of k8s.io/kubernetes pkg/registry, with the feature gates of a server without options.
// There is no admission plugin, and no schema of server-side apply.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/batch"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	"k8s.io/kubernetes/pkg/capabilities"
	"k8s.io/kubernetes/pkg/registry/batch/job"
	"k8s.io/kubernetes/pkg/registry/core/pod"
)

// Answer says why an object is rejected, or what the API server would store: the object with all defaults.
type Answer struct {
	Rejection string          `json:"rejection,omitempty"`
	Stored    json.RawMessage `json:"stored,omitempty"`
}

var (
	strict = serializer.NewCodecFactory(legacyscheme.Scheme, serializer.EnableStrict).UniversalDecoder()
	codec  = legacyscheme.Codecs.LegacyCodec(batchv1.SchemeGroupVersion, corev1.SchemeGroupVersion)
)

func answer(line []byte) (answer Answer) {
	defer func() {
		if panicked := recover(); panicked != nil {
			answer = Answer{Rejection: fmt.Sprint("panic: ", panicked)}
		}
	}()
	object, kind, err := strict.Decode(line, nil, nil)
	if err == nil {
		err = create(object, *kind)
	}
	if err == nil {
		answer.Stored, err = runtime.Encode(codec, object)
	}
	if err != nil {
		answer = Answer{Rejection: err.Error()}
	}
	return
}

// create does what k8s.io/apiserver pkg/registry/generic/registry Store.create does before admission. Declarative validation
// reads the version of the API from the request.
func create(object runtime.Object, kind schema.GroupVersionKind) error {
	var strategy rest.RESTCreateStrategy
	switch object.(type) {
	case *batch.Job:
		strategy = job.Strategy
	case *core.Pod:
		strategy = pod.Strategy
	default:
		return fmt.Errorf("unexpected %T", object)
	}
	metadata, err := meta.Accessor(object)
	if err != nil {
		return err
	}
	rest.FillObjectMetaSystemFields(metadata)
	if metadata.GetGenerateName() != "" && metadata.GetName() == "" {
		metadata.SetName(strategy.GenerateName(metadata.GetGenerateName()))
	}
	info := request.RequestInfo{APIGroup: kind.Group, APIVersion: kind.Version}
	context := request.WithRequestInfo(request.WithNamespace(request.NewContext(), metadata.GetNamespace()), &info)
	return rest.BeforeCreate(strategy, context, object)
}

func main() {
	capabilities.Setup(true, 0) // --allow-privileged, as kubeadm and OpenShift set it
	lines, out := bufio.NewScanner(os.Stdin), json.NewEncoder(os.Stdout)
	lines.Buffer(nil, 1<<26)
	for lines.Scan() {
		if err := out.Encode(answer(lines.Bytes())); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	if err := lines.Err(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
