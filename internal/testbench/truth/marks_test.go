package truth_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pgmesh/pgmesh/internal/testbench/proxy"
)

// A mark is a service whose port is a number that grows with each change of it. So each change has
// a cluster, endpoints, a listener and a route of its own, and a proxy knows by their names which
// changes it has.

// mark is one of these services.
type mark struct {
	name      string
	namespace string
	exportTo  string
	base      int // its ports begin after this
}

// portsAMark is how often a mark can change.
const portsAMark = 4000

// thorn is the mark of which some proxies refuse the cluster.
const thorn = "thorn"

// home is where the marks are that all proxies see.
const home = "home"

// marksOf are two marks that all proxies see, and one for each namespace.
func marksOf(namespaces []string) []mark {
	all := []mark{{name: "mark", namespace: home, exportTo: "*"}, {name: thorn, namespace: home, exportTo: "*"}}
	for _, n := range namespaces {
		all = append(all, mark{name: "mark-" + n, namespace: n, exportTo: "."})
	}
	for i := range all {
		all[i].base = 16_000 + i*portsAMark // beyond the ports that sidecars have for themselves
	}
	return all
}

func (m mark) seenBy(namespace string) bool { return m.exportTo == "*" || m.namespace == namespace }

func (m mark) host() string { return m.name + "." + m.namespace + ".test" }

// spec is the service after so many changes.
func (m mark) spec(changes int) string {
	return fmt.Sprintf(`{"hosts": [%q], "exportTo": [%q], "location": "MESH_INTERNAL", "resolution": "STATIC",
		"ports": [{"number": %d, "name": "http", "protocol": "HTTP"}], "endpoints": [{"address": "10.1.0.1"}]}`, m.host(), m.exportTo, m.base+changes)
}

// markedTypes are the types that have marks.
var markedTypes = []proxy.Type{proxy.Clusters, proxy.Endpoints, proxy.Listeners, proxy.Routes}

// portIn is the port in the name of a resource, 0 for none.
func portIn(name string) int {
	parts := strings.FieldsFunc(name, func(r rune) bool { return r == '|' || r == '_' || r == ':' })
	for _, p := range parts {
		if port, err := strconv.Atoi(p); err == nil {
			return port
		}
	}
	return 0
}

// holding is what a proxy has: the names of each type.
type holding map[proxy.Type]map[string]bool

// accept applies an offer. As in Envoy, endpoints and routes stay until they are not asked for any
// more, whatever the offer says.
func (h holding) accept(o proxy.Offer, whole bool) {
	lead := o.Type == proxy.Clusters || o.Type == proxy.Listeners
	if h[o.Type] == nil || whole && lead {
		h[o.Type] = map[string]bool{}
	}
	for _, n := range o.Names {
		h[o.Type][n] = true
	}
	for _, n := range o.Removed {
		if lead {
			delete(h[o.Type], n)
		}
	}
}

// ports are the highest ports of each mark that the holding has in full: cluster, endpoints,
// listener and route.
func (h holding) ports(marks []mark) map[string]int {
	has := make(map[string]int, len(marks))
	for _, m := range marks {
		var all []int
		for _, t := range markedTypes {
			highest := 0
			for n := range h[t] {
				if port := portIn(n); port > m.base && port < m.base+portsAMark {
					highest = max(highest, port)
				}
			}
			all = append(all, highest)
		}
		has[m.name] = slices.Min(all)
	}
	return has
}

// chronicle is which port each mark had from which revision on.
type chronicle struct {
	revision int64 // the newest that is known
	ports    map[string][]since
}

type since struct {
	revision int64
	port     int
}

func (c *chronicle) note(name string, revision int64, port int) {
	c.revision = max(c.revision, revision)
	c.ports[name] = append(c.ports[name], since{revision, port})
}

// at is the port of a mark at a revision, 0 before its first.
func (c *chronicle) at(name string, revision int64) (port int) {
	for _, s := range c.ports[name] {
		if s.revision > revision {
			break
		}
		port = s.port
	}
	return port
}

// lacks says which mark a proxy lacks that is said to run a revision, or "".
func (c *chronicle) lacks(marks []mark, namespace string, revision int64, has map[string]int) string {
	for _, m := range marks {
		if want := c.at(m.name, revision); m.seenBy(namespace) && has[m.name] < want {
			return fmt.Sprintf("%s at port %d (it has %d)", m.name, want, has[m.name])
		}
	}
	return ""
}
