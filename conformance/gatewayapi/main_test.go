package gatewayapi_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/pgmesh/pgmesh/internal/kit/process"
	"github.com/pgmesh/pgmesh/internal/testbench/netns"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/store/embedded"
)

// programsVariable names the folder of the built programs to the process that is in a network of its
// own.
const programsVariable = "CONFORMANCE_PROGRAMS"

// bin is that folder.
var bin = os.Getenv(programsVariable)

func TestMain(m *testing.M) { os.Exit(run(m)) }

// run runs the suite in a network of its own, and judges there what came out of it.
func run(m *testing.M) int {
	switch {
	case bin != "":
		pgtest.Main(m) // whether a test has failed is not the question
		return judge()
	case os.Getenv("KUBE_APISERVER") == "":
		return m.Run() // which skips
	}
	if err := inOwnNetwork(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// inOwnNetwork builds what needs the network of the machine, and runs this program again without it.
func inOwnNetwork(ctx context.Context) error {
	folder, err := os.MkdirTemp("", "conformance-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	if err := os.Chmod(folder, 0o755); err != nil {
		return err
	}
	if err := build(ctx, folder); err != nil {
		return err
	}
	postgres, err := embedded.Start(ctx, embedded.Options{Fast: true})
	if err != nil {
		return err
	}
	defer postgres.Stop()
	cmd := exec.Command(os.Args[0], os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), programsVariable+"="+folder, pgtest.URLVariable+"="+bySocket(postgres))
	netns.Alone(cmd)
	child, err := process.Start(cmd)
	if err != nil {
		return err
	}
	return child.Err()
}

// build compiles the programs of pgmesh, and the applications of the suite: that of gateways, and
// Istio's, which the suite has for meshes.
func build(ctx context.Context, into string) error {
	into += string(filepath.Separator)
	for folder, packages := range map[string][]string{
		"../..":              {"./mcp-server", "./discovery", "./mesh-agent"},
		".":                  {"sigs.k8s.io/gateway-api/conformance/echo-basic", "./whoami"},
		"../../tools/istiod": {"-trimpath", "istio.io/istio/pkg/test/echo/cmd/client", "istio.io/istio/pkg/test/echo/cmd/server"}, // as istiod, of which it shares much
	} {
		cmd := exec.CommandContext(ctx, "go", append([]string{"build", "-o", into}, packages...)...)
		cmd.Dir = folder
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build %v: %w\n%s", packages, err, out)
		}
	}
	return nil
}

// bySocket is the address of a Postgres for whoever is in another network.
func bySocket(s *embedded.Server) string {
	u, _ := url.Parse(s.URL()) // it has made it
	u.Host = ""
	u.RawQuery = url.Values{"host": {s.SocketDir()}, "port": {strconv.Itoa(s.Port())}, "sslmode": {"disable"}}.Encode()
	return u.String()
}
