package proxy

// Type is one of the types that a proxy asks for.
type Type int

// The types, in the order in which Envoy comes to ask for them.
const (
	Clusters Type = iota
	Endpoints
	Listeners
	Routes
	VirtualHosts
	// Types is how many there are.
	Types
)

var urls = [Types]string{
	Clusters:     "type.googleapis.com/envoy.config.cluster.v3.Cluster",
	Endpoints:    "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
	Listeners:    "type.googleapis.com/envoy.config.listener.v3.Listener",
	Routes:       "type.googleapis.com/envoy.config.route.v3.RouteConfiguration",
	VirtualHosts: "type.googleapis.com/envoy.config.route.v3.VirtualHost",
}

// URL is how the type is called on the wire.
func (t Type) URL() string { return urls[t] }

func (t Type) String() string {
	return [Types]string{"clusters", "endpoints", "listeners", "routes", "virtual hosts"}[t]
}

// typeOf finds the type without making a string of its name.
func typeOf(url []byte) (Type, bool) {
	for t, u := range urls {
		if string(url) == u {
			return Type(t), true
		}
	}
	return 0, false
}
