// The mesh-agent makes a machine a member of the mesh: it gets its certificates, and bootstraps,
// runs and drains its Envoy.
package main

import (
	"os"

	"github.com/pgmesh/pgmesh/internal/program"
	"github.com/pgmesh/pgmesh/mesh-agent/commands"
)

// garbagePercent replaces Go's default for GOGC of 100. Messages that pass become garbage at once;
// collecting earlier costs a few milliseconds for a whole mesh's configuration, and keeps the agent
// small.
const garbagePercent = 50

func main() {
	program.CollectGarbage(garbagePercent)
	os.Exit(program.Main(commands.Root()))
}
