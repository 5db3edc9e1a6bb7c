// The mesh-agent makes a machine a member of the mesh: it gets its certificates, writes the bootstrap of
// an Envoy, runs it, and ends it gently.
package main

import (
	"os"
	"runtime/debug"

	"github.com/pgmesh/pgmesh/internal/program"
)

// garbagePercent is how much garbage may be there beside what is used before it is collected. Messages that pass are garbage at once: less than
// Go's 100 costs a few milliseconds for a whole mesh that passes, and keeps the agent small.
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
