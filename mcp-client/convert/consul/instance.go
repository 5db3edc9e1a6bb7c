package consul

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/convert/fields"
	"github.com/pgmesh/pgmesh/mcp-client/convert/report"
	"github.com/pgmesh/pgmesh/mcp-client/convert/result"
)

// instance is one instance of a service.
type instance struct {
	id, address  string
	port         uint32
	tags         []string
	meta         map[string]string
	nodeMeta     map[string]string
	weight       uint32
	datacenter   string
	region, zone string
	status       string

	at report.Place
}

// The keys of an instance's meta that say how the mesh has it, as the registry reads them.
const (
	metaProtocol = "protocol"
	metaPort     = "mesh-port"
	metaAccount  = "mesh-account"
)

// nodePrefix comes before what the node of an instance says of itself, and tagPrefix before tags, as in the registry.
const (
	nodePrefix = "node.consul/"
	tagPrefix  = "tag.consul/"
)

// appLabel has the name of the service. Machines that take over bear it, and policies select by it.
const appLabel = "app"

// ofCatalog reads an instance as /v1/catalog/service has it.
func (c *Conversion) ofCatalog(o *fields.Object) {
	i := instance{
		datacenter: o.Text("Datacenter"), nodeMeta: o.Map("NodeMeta"), id: o.Text("ServiceID"), address: o.Text("ServiceAddress"),
		tags: o.Texts("ServiceTags"), meta: o.Map("ServiceMeta"), at: o.At,
	}
	i.port, _ = o.Whole("ServicePort")
	i.weight, _ = o.Object("ServiceWeights").Whole("Passing")
	i.localize(o.Object("ServiceLocality"))
	i.address = cmp.Or(i.address, o.Text("Address"))
	c.keep(o.Text("ServiceKind"), o.Text("Namespace"), o.Text("ServiceName"), i)
}

// ofHealth reads an instance as /v1/health/service has it.
func (c *Conversion) ofHealth(o *fields.Object) {
	node, s := o.Object("Node"), o.Object("Service")
	i := instance{datacenter: node.Text("Datacenter"), nodeMeta: node.Map("Meta")}
	for _, check := range o.Objects("Checks") {
		if status := check.Text("Status"); status == "critical" {
			i.status = status
		}
	}
	c.add(s, s.Text("Service"), i, node.Text("Address"))
}

// define reads a definition of a service.
func (c *Conversion) define(o *fields.Object, address string) {
	o.Skip("check", "checks", "token", "enable_tag_override", "EnableTagOverride")
	for _, upstream := range o.Object("connect").Object("sidecar_service").Object("proxy").Objects("upstreams") {
		name := cmp.Or(upstream.Text("destination_name"), upstream.Text("destination_type"))
		port, _ := upstream.Whole("local_bind_port")
		c.Note(upstream.At, "the application asks 127.0.0.1:"+strconv.FormatUint(uint64(port), 10)+" for "+name, "have it ask for "+name+".service.consul in the mesh")
	}
	c.add(o, o.Text("name"), instance{}, address)
	o.Object("connect").Skip("native", "sidecar_service")
}

// add reads an instance from what an agent says of it.
func (c *Conversion) add(o *fields.Object, name string, i instance, otherwise string) {
	i.id, i.tags, i.meta, i.at = cmp.Or(o.Text("ID"), name), o.Texts("Tags"), o.Map("Meta"), o.At
	i.address = cmp.Or(o.Text("Address"), otherwise)
	i.port, _ = o.Whole("Port")
	i.weight, _ = o.Object("Weights").Whole("Passing")
	i.localize(o.Object("Locality"))
	c.keep(o.Text("Kind"), o.Text("Namespace"), name, i)
}

func (i *instance) localize(o *fields.Object) { i.region, i.zone = o.Text("Region"), o.Text("Zone") }

// keep keeps an instance, unless it is one of Consul's own.
func (c *Conversion) keep(kind, namespace, name string, i instance) {
	switch {
	case name == "consul":
		return
	case kind != "" && kind != "typical":
		c.proxies[kind]++
		return
	}
	s := c.named(namespace, name, i.at)
	i.at.Kind, i.at.Namespace, i.at.Name = "service", s.namespace, s.name
	if i.address == "" {
		c.Lose(i.at, "the address of the instance "+i.id+" is not known: the instance is left out", "convert what /v1/catalog/service/"+name+" answers, or have its machine register itself")
	}
	if slices.ContainsFunc(s.instances, func(other instance) bool {
		return other.id == i.id && other.address == i.address && other.port == i.port
	}) {
		return // it is in the catalog and in the answer with its health, say
	}
	s.instances = append(s.instances, i)
}

// serves is where clients reach an instance.
func (i *instance) serves() uint32 {
	if n, err := strconv.ParseUint(i.meta[metaPort], 10, 16); err == nil && n > 0 {
		return uint32(n)
	}
	return i.port
}

// locality is the datacenter, unless Consul knows a region, and the zone.
func (i *instance) locality() string {
	region, zone := cmp.Or(i.region, i.datacenter), cmp.Or(i.zone, i.nodeMeta["zone"])
	if zone == "" || region == "" {
		return region
	}
	return region + "/" + zone
}

// labels tell subsets apart, as in the registry: the meta of the instance, its tags, and the meta of its node.
func (i *instance) labels(of *service) map[string]string {
	out := map[string]string{}
	for key, value := range i.nodeMeta {
		if value != "" {
			out[nodePrefix+key] = value
		}
	}
	for _, tag := range i.tags {
		key, value := labelOfTag(tag)
		out[key] = value
	}
	maps.Copy(out, i.meta)
	maps.DeleteFunc(out, func(key, value string) bool { return !kinds.ValidLabel(key, value) })
	out[appLabel] = of.label()
	return out
}

// labelOfTag is the label that says that an instance has a tag.
func labelOfTag(tag string) (key, value string) {
	if key, value, found := strings.Cut(tag, "="); found {
		return key, value
	}
	return tagPrefix + tag, "true"
}

// label is the value of the label that all instances of the service have, and no others.
func (s *service) label() string {
	if kinds.ValidLabel(appLabel, s.name) {
		return s.name
	}
	return result.Name(s.name)
}
