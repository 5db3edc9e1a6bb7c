package proxy

// The parts of resources that refer to others. The numbers are field numbers of Envoy's messages.

const (
	httpConnectionManager = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
	clusterByEDS          = 3 // Cluster.DiscoveryType
)

// endpointsOf returns the name under which a cluster requests its endpoints, if it is an EDS
// cluster.
func endpointsOf(cluster []byte) (refs []name, err error) {
	var own, config []byte
	var discovery uint64
	err = walk(cluster, func(f field) error {
		switch f.id {
		case 1: // name
			own = f.bytes
		case 2: // type
			discovery = f.number
		case 3: // eds_cluster_config
			config = f.bytes
		}
		return nil
	})
	if err != nil || discovery != clusterByEDS {
		return nil, err
	}
	service, err := find(config, 2) // service_name
	if len(service) == 0 {
		service = own
	}
	return []name{nameOf(service)}, err
}

// routesOf returns the route configurations that a listener requests.
func routesOf(listener []byte) (refs []name, err error) {
	err = walk(listener, func(f field) error {
		if f.id != 3 && f.id != 25 { // filter_chains, default_filter_chain
			return nil
		}
		return walk(f.bytes, func(f field) error {
			if f.id != 3 { // filters
				return nil
			}
			route, err := routeOf(f.bytes)
			if len(route) > 0 {
				refs = append(refs, nameOf(route))
			}
			return err
		})
	})
	return refs, err
}

// routeOf returns the route configuration that a network filter requests, nil if none.
func routeOf(filter []byte) ([]byte, error) {
	config, err := find(filter, 4) // typed_config
	if err != nil {
		return nil, err
	}
	var url, value []byte
	err = walk(config, func(f field) error {
		switch f.id {
		case 1:
			url = f.bytes
		case 2:
			value = f.bytes
		}
		return nil
	})
	if err != nil || string(url) != httpConnectionManager {
		return nil, err
	}
	rds, err := find(value, 3) // rds
	if err != nil {
		return nil, err
	}
	return find(rds, 2) // route_config_name
}

// hostsOf counts the virtual hosts in a route configuration, and reports whether it uses VHDS.
func hostsOf(routes []byte) (hosts int, more bool, err error) {
	err = walk(routes, func(f field) error {
		switch f.id {
		case 2: // virtual_hosts
			hosts++
		case 9: // vhds
			more = true
		}
		return nil
	})
	return hosts, more, err
}
