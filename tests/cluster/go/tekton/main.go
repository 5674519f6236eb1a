// Command tekton prints why Tekton's admission webhook rejects each of the objects on stdin, a JSON list, and an empty text
// for an accepted object. The webhook decodes with unknown fields disallowed, sets defaults and validates (knative.dev/pkg
// webhook/resourcesemantics/{defaulting,validation}).
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"

	v1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	"knative.dev/pkg/apis"
)

type object interface {
	apis.Defaultable
	apis.Validatable
}

func judge(body json.RawMessage) string {
	var named struct{ Kind string }
	if err := json.Unmarshal(body, &named); err != nil {
		return err.Error()
	}
	kinds := map[string]object{"Task": &v1.Task{}, "Pipeline": &v1.Pipeline{}, "PipelineRun": &v1.PipelineRun{}}
	made, isKnown := kinds[named.Kind]
	if !isKnown {
		return "unknown kind " + named.Kind
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(made); err != nil {
		return err.Error()
	}
	ctx := apis.WithinCreate(context.Background())
	made.SetDefaults(ctx)
	if problems := made.Validate(ctx).Filter(apis.ErrorLevel); problems != nil {
		return problems.Error()
	}
	return ""
}

func main() {
	var bodies []json.RawMessage
	if err := json.NewDecoder(os.Stdin).Decode(&bodies); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	answers := []string{}
	for _, body := range bodies {
		answers = append(answers, judge(body))
	}
	if err := json.NewEncoder(os.Stdout).Encode(answers); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
