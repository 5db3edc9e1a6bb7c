// The mesh-agent makes a machine a member of the mesh: it gets its certificates, writes the bootstrap of
// an Envoy, runs it, and ends it gently.
package main

import (
	"os"

	"github.com/pgmesh/pgmesh/internal/program"
)

func main() {
	root := program.New("mesh-agent", "Make this machine a member of the mesh: join, and bootstrap, run and drain its Envoy")
	root.AddCommand(joinCommand(), runCommand(), bootstrapCommand(), settingsCommand(), statusCommand(), logsCommand(), dnsCommand(), redirectCommand())
	os.Exit(program.Main(root))
}
