// Argo CD's repo-server, application-controller, applicationset-controller and notifications-controller in one program,
// with the Redis server of Argo CD's own tests, and Argo CD's assessment of an object's health.
package main

import (
	"encoding/json"
	"os"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/klog/v2"

	"github.com/argoproj/argo-cd/gitops-engine/v3/pkg/health"
	controller "github.com/argoproj/argo-cd/v3/cmd/argocd-application-controller/commands"
	applicationset "github.com/argoproj/argo-cd/v3/cmd/argocd-applicationset-controller/commands"
	notifications "github.com/argoproj/argo-cd/v3/cmd/argocd-notification/commands"
	reposerver "github.com/argoproj/argo-cd/v3/cmd/argocd-repo-server/commands"
	argo "github.com/argoproj/argo-cd/v3/pkg/apis/application/v1alpha1"
	"github.com/argoproj/argo-cd/v3/util/log"
	"github.com/argoproj/argo-cd/v3/util/lua"
)

// question is an object, and the entries `resource.customizations.health.<group>_<kind>` of argocd-cm.
type question struct {
	Object  map[string]any    `json:"object"`
	Scripts map[string]string `json:"scripts"`
}

func main() {
	klog.SetLogger(log.NewLogrusLogger(log.NewWithCurrentConfig()))
	commands := map[string]func() *cobra.Command{
		"application-controller":    controller.NewCommand,
		"applicationset-controller": applicationset.NewCommand,
		"notifications-controller":  notifications.NewCommand,
		"repo-server":               reposerver.NewCommand,
		"redis":                     redisCommand,
		"health":                    healthCommand,
	}
	command := commands[os.Args[1]]()
	command.SetArgs(os.Args[2:])
	if command.Execute() != nil {
		os.Exit(1)
	}
}

// healthCommand reads JSON questions, and writes the health status of each object in a line; null if Argo CD has none.
func healthCommand() *cobra.Command {
	return &cobra.Command{RunE: func(*cobra.Command, []string) error {
		var questions []question
		if err := json.NewDecoder(os.Stdin).Decode(&questions); err != nil {
			return err
		}
		for _, asked := range questions {
			overrides := lua.ResourceHealthOverrides{}
			for kind, script := range asked.Scripts {
				overrides[kind] = argo.ResourceOverride{HealthLua: script}
			}
			status, err := health.GetResourceHealth(&unstructured.Unstructured{Object: asked.Object}, overrides)
			if err != nil {
				return err
			}
			if err := json.NewEncoder(os.Stdout).Encode(status); err != nil {
				return err
			}
		}
		return nil
	}}
}

// redisCommand serves a Redis database in memory on an address, and lets its keys expire.
func redisCommand() *cobra.Command {
	return &cobra.Command{Args: cobra.ExactArgs(1), RunE: func(_ *cobra.Command, args []string) error {
		server := miniredis.NewMiniRedis()
		if err := server.StartAddr(args[0]); err != nil {
			return err
		}
		for range time.Tick(time.Second) {
			server.FastForward(time.Second)
		}
		return nil
	}}
}
