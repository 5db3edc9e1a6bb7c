// The mesh-agent makes a machine a member of the mesh: it gets its certificates, and bootstraps, runs and
// drains its Envoy.
package main

import (
	"os"
	"runtime/debug"

	"github.com/pgmesh/pgmesh/internal/program"
)

// garbagePercent replaces Go's default for GOGC of 100. Messages that pass become garbage at once;
// collecting earlier costs a few milliseconds for a whole mesh's configuration, and keeps the agent small.
const garbagePercent = 50

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbagePercent)
	}
	root := program.New("mesh-agent", "Make this machine a member of the mesh: join, and bootstrap, run and drain its Envoy")
	root.AddCommand(joinCommand(), runCommand(), bootstrapCommand(), settingsCommand(), checkCommand(), dnsCommand(), redirectCommand(),
		statusCommand(), logsCommand(), envoyCommand(), drainCommand(), stopCommand(), bugReportCommand())
	os.Exit(program.Main(root))
}
