package naming

import (
	"strings"

	"github.com/pgmesh/pgmesh/discovery/mesh"
)

// FillStat puts what a pattern of the mesh configuration asks for into it.
func FillStat(pattern, host, subset string, port *mesh.Port, target uint32) string {
	return strings.NewReplacer(
		"%SERVICE%", host, "%SERVICE_NAME%", host, "%SERVICE_FQDN%", host,
		"%SUBSET_NAME%", subset, "%TARGET_PORT%", Number(target), "%SERVICE_PORT%", Number(port.Number), "%SERVICE_PORT_NAME%", port.Name,
	).Replace(pattern)
}
