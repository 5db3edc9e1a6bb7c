package kubetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/pgmesh/pgmesh/internal/testbench/poll"
)

// The modules that have the kinds of Istio, of the Gateway API and of its inference extension: that of
// go.mod, and those that kinds are generated from.
const (
	istioModule     = "istio.io/api"
	gatewayPath     = "sigs.k8s.io/gateway-api"
	gatewayModule   = gatewayPath + "@v1.6.1"
	inferenceModule = "sigs.k8s.io/gateway-api-inference-extension@v1.5.0"
)

// InstallIstio has the cluster know Istio's kinds.
func (c *Cluster) InstallIstio() {
	c.t.Helper()
	c.Install(filepath.Join(c.module("list", "-m", "-json", istioModule), "kubernetes", "customresourcedefinitions.gen.yaml"))
}

// InstallGatewayAPI has the cluster know the kinds of the Gateway API.
func (c *Cluster) InstallGatewayAPI() {
	c.t.Helper()
	c.installGatewayAPI("standard", c.module("mod", "download", "-json", gatewayModule))
}

// InstallInference has the cluster know the kind InferencePool.
func (c *Cluster) InstallInference() {
	c.t.Helper()
	c.Install(filepath.Join(c.module("mod", "download", "-json", inferenceModule), "config", "crd", "bases", "inference.networking.k8s.io_inferencepools.yaml"))
}

// InstallExperimentalGatewayAPI has it know the kinds of the version that the test's own module requires,
// with what is experimental in them. The standard ones lack fields, of which the API server drops what
// routes say: retries, ports of parents.
func (c *Cluster) InstallExperimentalGatewayAPI() {
	c.t.Helper()
	c.installGatewayAPI("experimental", c.module("list", "-m", "-json", gatewayPath))
}

func (c *Cluster) installGatewayAPI(channel, module string) {
	c.t.Helper()
	files, err := filepath.Glob(filepath.Join(module, "config", "crd", channel, "gateway.networking.k8s.io_*.yaml"))
	if err != nil || len(files) == 0 {
		c.t.Fatalf("the module has no kinds: %v", err)
	}
	c.Install(files...)
}

// module is the folder of a module in the cache.
func (c *Cluster) module(arguments ...string) string {
	c.t.Helper()
	output, err := exec.CommandContext(c.t.Context(), "go", arguments...).Output()
	var found struct{ Dir string }
	if err == nil {
		err = json.Unmarshal(output, &found)
	}
	if err != nil || found.Dir == "" {
		c.t.Fatalf("locate a module: go %v: %v: %s", arguments, err, output)
	}
	return found.Dir
}

const definitionsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"

// DefinitionPath is where the definition of a kind is: virtualservices.networking.istio.io.
func DefinitionPath(name string) string { return definitionsPath + name }

// Install has the cluster know the kinds that files define.
func (c *Cluster) Install(files ...string) {
	c.t.Helper()
	var names []string
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			c.t.Fatal(err)
		}
		for _, definition := range documents(c.t, content) {
			name := definition["metadata"].(Object)["name"].(string)
			c.Apply(DefinitionPath(name), definition)
			names = append(names, name)
		}
	}
	for _, name := range names {
		c.AwaitDefinition(name)
	}
}

// AwaitDefinition waits until the cluster serves a kind.
func (c *Cluster) AwaitDefinition(name string) {
	c.t.Helper()
	poll.Eventually(c.t, func(ctx context.Context) error {
		answer, err := c.ask(ctx, http.MethodGet, DefinitionPath(name), nil)
		if err == nil {
			err = established(answer)
		}
		return err
	})
}

func established(answer []byte) error {
	var definition struct {
		Status struct {
			Conditions []struct{ Type, Status string }
		}
	}
	if err := json.Unmarshal(answer, &definition); err != nil {
		return err
	}
	for _, condition := range definition.Status.Conditions {
		if condition.Type == "Established" && condition.Status == "True" {
			return nil
		}
	}
	return fmt.Errorf("it is not established: %v", definition.Status.Conditions)
}

// documents are those of a file that are definitions of kinds.
func documents(t testing.TB, content []byte) (all []Object) {
	t.Helper()
	for decoder := yaml.NewDecoder(bytes.NewReader(content)); ; {
		var document Object
		switch err := decoder.Decode(&document); {
		case errors.Is(err, io.EOF):
			return all
		case err != nil:
			t.Fatal(err)
		case document["kind"] == "CustomResourceDefinition":
			all = append(all, document)
		}
	}
}
