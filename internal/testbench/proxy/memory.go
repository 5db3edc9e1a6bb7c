package proxy

// Memory is what a proxy has, and asks for. It outlives streams, as in an Envoy whose server goes
// away and comes back.
type Memory struct {
	subscriptions [Types]subscription
	// The versions of what it has, of a proxy that may come back and speaks the incremental form.
	versions [Types]map[name]string
	// The names to which each cluster and listener refers.
	clusters, listeners map[name][]name
	sums                map[name]uint64 // hashes of clusters
	hosts               map[name]int    // number of virtual hosts in each route configuration
	more                bool            // uses VHDS
	virtualHosts        map[name]bool
}

// NewMemory returns the memory of a proxy that has just started.
func NewMemory() *Memory {
	m := &Memory{clusters: map[name][]name{}, listeners: map[name][]name{}, sums: map[name]uint64{}, hosts: map[name]int{}, virtualHosts: map[name]bool{}}
	for t := range m.subscriptions {
		m.subscriptions[t] = subscription{kind: Type(t), wanted: map[name]*want{}}
		m.versions[t] = map[name]string{}
	}
	return m
}

// keep keeps the versions of what was accepted.
func (m *Memory) keep(r *response) {
	versions := m.versions[r.kind]
	if versions == nil {
		return
	}
	for _, resource := range r.resources {
		versions[resource.name] = string(resource.version)
	}
	for _, n := range r.removed {
		delete(versions, n)
	}
}

// drop forgets the versions of what is no longer asked for.
func (m *Memory) drop(kind Type, names []name) {
	for _, n := range names {
		delete(m.versions[kind], n)
	}
}
