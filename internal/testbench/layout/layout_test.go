// Package layout holds no code. Its test keeps the direction in which the stages of the pipeline
// depend on each other.
package layout

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/pgmesh/pgmesh/"

// mayUse says which other stages a stage may depend on, directly or not. Everybody may use packages
// in internal, as long as those keep the same rule. What runs everything (deploy, bench) may use
// everything.
var mayUse = map[string][]string{
	"proto":      {},
	"identity":   {"proto"},
	"kinds":      {"identity", "proto"},
	"store":      {"kinds", "identity", "proto"},
	"registry":   {"mcp-client", "kinds", "identity", "proto"},                      // another server may be one
	"mcp-server": {"registry", "store", "mcp-client", "kinds", "identity", "proto"}, // a relay is a client of the server before it
	"mcp-client": {"kinds", "identity", "proto"},
	"discovery":  {"mcp-client", "kinds", "identity", "proto"},
	"mesh-agent": {"identity", "proto"},
}

func TestStagesDependInOneDirection(t *testing.T) {
	t.Parallel()
	for folder, dependencies := range list(t, "Deps") {
		stage := stageOf(folder)
		allowed, isStage := mayUse[stage]
		if !isStage {
			continue
		}
		for _, d := range dependencies {
			if other := stageOf(d); other != stage && other != "internal" && !slices.Contains(allowed, other) {
				t.Errorf("%s is built from %s, but %s may use only %s: move what both need to the left of both, or pass it in as a value",
					folder, d, stage, oneOfOrNothing(allowed))
			}
		}
	}
}

// Packages in internal/kit would serve any program, so they know nothing of a mesh.
func TestKitKnowsNothingOfAMesh(t *testing.T) {
	t.Parallel()
	for folder, dependencies := range list(t, "Deps") {
		if !isIn(folder, "internal/kit") {
			continue
		}
		for _, d := range dependencies {
			if !isIn(d, "internal/kit") {
				t.Errorf("%s is built from %s: what knows of a mesh goes to internal, beside internal/kit", folder, d)
			}
		}
	}
}

// No program for users contains a part of the test bench.
func TestNoProgramHasTheTestBenchInIt(t *testing.T) {
	t.Parallel()
	all := list(t, "Deps")
	for _, program := range []string{"mcp-server", "mcp-client", "discovery", "mesh-agent"} {
		for _, d := range all[program] {
			if isIn(d, "internal/testbench") {
				t.Errorf("%s is built from %s, which is for tests", program, d)
			}
		}
	}
}

// Benchmarks use everything, and nothing uses them, not even a test.
func TestNothingIsBuiltOnBenchmarks(t *testing.T) {
	t.Parallel()
	for _, what := range []string{"Imports", "TestImports", "XTestImports"} {
		for folder, imports := range list(t, what) {
			for _, i := range imports {
				if stageOf(i) == "bench" && stageOf(folder) != "bench" {
					t.Errorf("%s uses %s: what benchmarks and tests share goes to internal/testbench", folder, i)
				}
			}
		}
	}
}

func isIn(folder, room string) bool { return strings.HasPrefix(folder, room+"/") }

// list lists, for each package of this module, and of those below it, what it imports
// ("Imports") or is built from ("Deps") in these modules, without tests.
func list(t *testing.T, what string) map[string][]string {
	t.Helper()
	of := map[string][]string{}
	for folder, pattern := range map[string]string{
		"../../..": module + "...", "../../../bench": module + "bench/...", "../../../conformance/gatewayapi": module + "conformance/gatewayapi/...",
		"../../../deploy/release": module + "deploy/release/...", "../../../deploy/terraform": module + "deploy/terraform/...",
	} {
		listing := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .`+what+` " "}}`, pattern)
		listing.Dir = folder
		output, err := listing.Output()
		require.NoError(t, err, "list the packages of %s", folder)
		for line := range strings.Lines(string(output)) {
			packages := strings.Fields(line)
			of[strings.TrimPrefix(packages[0], module)] = ours(packages[1:])
		}
	}
	return of
}

func ours(packages []string) []string {
	var found []string
	for _, p := range packages {
		if folder, isOurs := strings.CutPrefix(p, module); isOurs {
			found = append(found, folder)
		}
	}
	return found
}

func stageOf(folder string) string {
	stage, _, _ := strings.Cut(folder, "/")
	return stage
}

func oneOfOrNothing(stages []string) string {
	if len(stages) == 0 {
		return "nothing of the others"
	}
	return strings.Join(stages, ", ")
}
