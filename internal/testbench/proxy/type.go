package proxy

// Type is one of the types that a proxy subscribes to.
type Type int

// The types, in the order in which Envoy requests them.
const (
	Clusters Type = iota
	Endpoints
	Listeners
	Routes
	VirtualHosts
	// Types is the number of types.
	Types
)

var urls = [Types]string{
	Clusters:     "type.googleapis.com/envoy.config.cluster.v3.Cluster",
	Endpoints:    "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
	Listeners:    "type.googleapis.com/envoy.config.listener.v3.Listener",
	Routes:       "type.googleapis.com/envoy.config.route.v3.RouteConfiguration",
	VirtualHosts: "type.googleapis.com/envoy.config.route.v3.VirtualHost",
}

// URL returns the type's URL.
func (t Type) URL() string { return urls[t] }

func (t Type) String() string {
	return [Types]string{"clusters", "endpoints", "listeners", "routes", "virtual hosts"}[t]
}

// typeOf finds a type without allocating a string.
func typeOf(url []byte) (Type, bool) {
	for t, u := range urls {
		if string(url) == u {
			return Type(t), true
		}
	}
	return 0, false
}
