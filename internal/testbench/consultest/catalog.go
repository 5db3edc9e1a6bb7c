package consultest

// Instance is an instance as a test registers it, at a node of its own: the catalog of Consul has it
// without an agent that would take it away.
type Instance struct {
	ID, Service, Node, Address string
	Port                       uint32
	Tags                       []string
	Meta, NodeMeta             map[string]string
	Weight                     uint32 // 0: none is said
	// Status is that of its check, passing, warning or critical. "" has no check.
	Status string
}

// document is an instance as the catalog takes it.
func (i Instance) document() Config {
	service := Config{"ID": i.ID, "Service": i.Service, "Address": i.Address, "Port": i.Port, "Tags": i.Tags, "Meta": i.Meta}
	if i.Weight > 0 {
		service["Weights"] = Config{"Passing": i.Weight, "Warning": i.Weight}
	}
	document := Config{"Node": i.Node, "Address": "127.0.0.1", "NodeMeta": i.NodeMeta, "Service": service}
	if i.Status != "" {
		document["Check"] = Config{"CheckID": "check:" + i.ID, "Name": "check", "ServiceID": i.ID, "Status": i.Status}
	}
	return document
}

// Register adds an instance, or changes it.
func (c *Consul) Register(i Instance) {
	c.t.Helper()
	c.Put("/v1/catalog/register", i.document())
}

// Deregister removes an instance with its check.
func (c *Consul) Deregister(node, id string) {
	c.t.Helper()
	c.Put("/v1/catalog/deregister", Config{"Node": node, "ServiceID": id})
}

// DeregisterNode removes a node with all that is on it.
func (c *Consul) DeregisterNode(node string) {
	c.t.Helper()
	c.Put("/v1/catalog/deregister", Config{"Node": node})
}

// mostOperations is how many a transaction of Consul may have.
const mostOperations = 128

// RegisterMany registers many instances, many at a time.
func (c *Consul) RegisterMany(all []Instance) {
	c.t.Helper()
	nodes := map[string]bool{}
	var operations []Config
	send := func() {
		c.Put("/v1/txn", operations)
		operations = nil
	}
	for _, i := range all {
		if len(operations)+3 > mostOperations {
			send()
		}
		d := i.document()
		if !nodes[i.Node] {
			nodes[i.Node] = true
			operations = append(operations, Config{"Node": Config{"Verb": "set", "Node": Config{"Node": i.Node, "Address": d["Address"], "Meta": i.NodeMeta}}})
		}
		operations = append(operations, Config{"Service": Config{"Verb": "set", "Node": i.Node, "Service": d["Service"]}})
		if check, has := d["Check"].(Config); has {
			check["Node"] = i.Node
			operations = append(operations, Config{"Check": Config{"Verb": "set", "Check": check}})
		}
	}
	send()
}
