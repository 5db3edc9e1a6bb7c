package zookeeper

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/pgmesh/pgmesh/registry/service"
	"github.com/pgmesh/pgmesh/registry/zookeeper/tree"
)

// dubbo is the format of Dubbo: the children of /dubbo/INTERFACE/providers are URLs, escaped, and
// those of /dubbo/INTERFACE/configurators are URLs that change others.
type dubbo struct{ *settings }

const (
	providers     = "providers"
	configurators = "configurators"
)

func (d dubbo) shape() tree.Shape {
	return tree.Shape{Lists: 3, Wanted: func(level int, name string) bool {
		return level != 1 || name == providers || name == configurators
	}}
}

// provided is which service a provider is one of: two versions of an interface are not the same.
type provided struct{ protocol, group, version string }

// words are how Dubbo writes it, with the protocol where it is not Dubbo's own.
func (p provided) words(name string) string {
	if p.group != "" {
		name = p.group + "/" + name
	}
	if p.version != "" {
		name += ":" + p.version
	}
	if p.protocol != protocolDubbo {
		name = p.protocol + "://" + name
	}
	return name
}

// host is the interface with group and version behind it, and the protocol before it where it is not
// Dubbo's own. It does not depend on what else there is.
func (p provided) host(name, domain string) string {
	if p.group != "" {
		name += "-" + strings.ReplaceAll(p.group, ".", "-")
	}
	if p.version != "" {
		name += "-" + strings.ReplaceAll(p.version, ".", "-")
	}
	if p.protocol != protocolDubbo {
		name = p.protocol + "." + name
	}
	return strings.ToLower(name + "." + domain)
}

const (
	protocolDubbo = "dubbo"
	noVersion     = "0.0.0" // is how some of its releases write that there is none
	defaultWeight = 100
	// dubboPort is where an interface is reached whose providers have many ports.
	dubboPort = 20880
)

// dubboProtocols are what Dubbo's protocols are in the mesh. Others are TCP.
var dubboProtocols = map[string]string{"tri": "GRPC", "grpc": "GRPC", "rest": "HTTP", "http": "HTTP", "hessian": "HTTP", "webservice": "HTTP"}

// usualLabels are the parameters of a URL that are labels. Others are addresses, times and secrets.
var usualLabels = []string{
	"application", "group", "version", "release", "module", "environment", "organization", "owner", "tag", "dubbo.tag", keyRegion, keyZone,
}

func (d dubbo) read(path string, _ []byte) (entry, error) {
	group, rest, _ := strings.Cut(path, "/")
	sort, name, _ := strings.Cut(rest, "/")
	text, err := url.QueryUnescape(name)
	if err != nil {
		return entry{}, errors.New("its name is no escaped URL")
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return entry{}, errors.New("it is no URL with an address")
	}
	if sort == configurators {
		return d.readOverride(u)
	}
	return d.readProvider(group, u)
}

func (d dubbo) readProvider(group string, u *url.URL) (entry, error) {
	said := u.Query()
	i := &instance{Instance: service.Instance{Address: u.Hostname(), Weight: defaultWeight, Labels: d.labelsOf(said)}}
	i.of = provided{strings.ToLower(u.Scheme), said.Get("group"), said.Get("version")}
	if i.of.version == noVersion {
		i.of.version = ""
	}
	if n, err := strconv.ParseUint(u.Port(), 10, 16); err == nil {
		i.port = uint32(n)
	}
	i.protocol = cmp.Or(dubboProtocols[i.of.protocol], d.protocol)
	flat := make(map[string]string, len(said))
	for key := range said {
		flat[key] = said.Get(key)
	}
	i.describe(flat, d.settings)
	if err := i.weigh(said.Get(keyWeight)); err != nil {
		return entry{}, err
	}
	i.off = said.Get("disabled") == "true" || said.Get("enabled") == "false"
	if at := i.of.host(group, d.domain); !validHost(at) {
		return entry{}, fmt.Errorf("nobody can ask for its host %q: interface, group, version and protocol have to be of letters, digits and -", at)
	}
	return entry{instance: i}, i.check()
}

func (d dubbo) labelsOf(said url.Values) map[string]string {
	out := map[string]string{}
	for _, key := range slices.Concat(usualLabels, d.labels) {
		if value := said.Get(key); value != "" {
			out[key] = value
		}
	}
	return out
}

// override is what an administrator has said of some providers of an interface.
type override struct {
	address  string // "": all
	port     uint32 // 0: all
	version  string // "*": all
	group    string
	disabled string // "true" or "false"; "" says nothing
	weight   string // "" says nothing
}

// readOverride reads what counts for all who call. What counts for one application of callers is
// left out, for the mesh has one state for all.
func (d dubbo) readOverride(u *url.URL) (entry, error) {
	said := u.Query()
	callers := said.Get("application")
	if u.Scheme != "override" || said.Get("enabled") == "false" || callers != "" && callers != "*" || said.Get("side") == "consumer" {
		return entry{}, nil
	}
	o := &override{version: said.Get("version"), group: said.Get("group"), disabled: said.Get("disabled"), weight: said.Get(keyWeight)}
	if at := u.Hostname(); at != "0.0.0.0" && at != "anyhost" {
		o.address = at
		n, err := strconv.ParseUint(cmp.Or(u.Port(), "0"), 10, 16)
		if err != nil {
			return entry{}, fmt.Errorf("%q is no port", u.Port())
		}
		o.port = uint32(n)
	}
	if err := new(instance).weigh(o.weight); err != nil {
		return entry{}, err
	}
	return entry{override: o}, nil
}

func (o *override) means(i *instance) bool {
	return (o.address == "" || o.address == i.Address) && (o.port == 0 || o.port == i.port) &&
		(o.version == "*" || o.version == i.of.version) && (o.group == "*" || o.group == i.of.group)
}

// applied is the instance as overrides have it.
func applied(i *instance, all []*override) *instance {
	changed := *i
	for _, o := range all {
		if !o.means(i) {
			continue
		}
		_ = changed.weigh(o.weight) // it was read before
		if o.disabled != "" {
			changed.off = o.disabled == "true"
		}
	}
	return &changed
}

func (d dubbo) services(group string, all []*entry) ([]*service.Service, error) {
	var overrides []*override
	for _, e := range all {
		if e.override != nil {
			overrides = append(overrides, e.override)
		}
	}
	by := map[provided][]*instance{}
	for _, e := range all {
		if e.instance != nil {
			by[e.instance.of] = append(by[e.instance.of], applied(e.instance, overrides))
		}
	}
	var out []*service.Service
	for _, of := range slices.SortedFunc(maps.Keys(by), provided.compare) {
		out = append(out, d.makeService(of.words(group), group, of.host(group, d.domain), dubboPort, by[of]))
	}
	return out, nil
}

func (p provided) compare(other provided) int {
	return cmp.Or(cmp.Compare(p.protocol, other.protocol), cmp.Compare(p.group, other.group), cmp.Compare(p.version, other.version))
}
