package envoyview

import (
	"cmp"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Config lists the views of Envoy's configuration, by type.
var Config = []View{
	configView("clusters", "dynamic_active_clusters", "dynamic_warming_clusters", "static_clusters"),
	configView("endpoints", "dynamic_endpoint_configs", "static_endpoint_configs"),
	configView("listeners", "dynamic_listeners", "static_listeners"),
	configView("routes", "dynamic_route_configs", "static_route_configs"),
	configView("secrets", "dynamic_active_secrets", "dynamic_warming_secrets", "static_secrets"),
}

// Overview counts Envoy's resources of each type.
var Overview = View{
	Name: "config", Short: "Show the configuration that Envoy has",
	Example: "  mesh-agent envoy config\n  mesh-agent envoy config clusters --name cart\n  mesh-agent envoy config -o json > dump.json",
	Path:    "/config_dump?include_eds", NameParam: "name_regex",
	Header: []string{"TYPE", "HAS", "WARMING", "REFUSED", "LAST CHANGE"}, Rows: overviewRows,
}

var headers = map[string][]string{
	"clusters":  {"CLUSTER", "TYPE", "STATE", "VERSION", "CHANGED"},
	"endpoints": {"CLUSTER", "ENDPOINTS", "HEALTHY", "STATE", "VERSION", "CHANGED"},
	"listeners": {"LISTENER", "ADDRESS", "CHAINS", "STATE", "VERSION", "CHANGED"},
	"routes":    {"ROUTES", "VIRTUAL HOSTS", "DOMAINS", "STATE", "VERSION", "CHANGED"},
	"secrets":   {"SECRET", "TYPE", "NAMES", "NOT AFTER", "STATE", "VERSION", "CHANGED"},
}

func configView(kind string, lists ...string) View {
	return View{
		Name: kind, Short: "List the " + kind + " of Envoy's configuration", Path: "/config_dump?include_eds", NameParam: "name_regex",
		Example: "  mesh-agent envoy config " + kind + "\n  mesh-agent envoy config " + kind + " --name cart -o yaml",
		Header:  headers[kind], lists: lists,
		Rows: func(answer io.Reader, wanted *regexp.Regexp) ([][]string, error) {
			dump, err := readDump(answer)
			if err != nil {
				return nil, err
			}
			return dump.rows(lists, wanted), nil
		},
	}
}

// dump is a configuration dump, by the names of Envoy's lists.
type dump map[string][]item

// item is a resource of any type; the fields of other types are empty.
type item struct {
	Name    string    `json:"name"` // for listeners and secrets
	Version string    `json:"version_info"`
	Changed time.Time `json:"last_updated"`

	Cluster   *clusterConfig  `json:"cluster"`
	Endpoints *endpointConfig `json:"endpoint_config"`
	Routes    *routeConfig    `json:"route_config"`
	Listener  *listenerConfig `json:"listener"` // for static listeners
	Secret    *secretConfig   `json:"secret"`

	// For dynamic listeners.
	Active   *listenerState `json:"active_state"`
	Warming  *listenerState `json:"warming_state"`
	Draining *listenerState `json:"draining_state"`
	Refused  *struct {
		Details string    `json:"details"`
		At      time.Time `json:"last_update_attempt"`
	} `json:"error_state"`
}

type listenerState struct {
	Version  string          `json:"version_info"`
	Changed  time.Time       `json:"last_updated"`
	Listener *listenerConfig `json:"listener"`
}

type clusterConfig struct {
	Name   string `json:"name"`
	Type   string `json:"type"`
	Custom struct {
		Name string `json:"name"`
	} `json:"cluster_type"`
}

type endpointConfig struct {
	Name       string `json:"cluster_name"`
	Localities []struct {
		Endpoints []struct {
			Health string `json:"health_status"`
		} `json:"lb_endpoints"`
	} `json:"endpoints"`
}

type listenerConfig struct {
	Name    string            `json:"name"`
	Address address           `json:"address"`
	Chains  []json.RawMessage `json:"filter_chains"`
	Default json.RawMessage   `json:"default_filter_chain"`
}

type routeConfig struct {
	Name  string `json:"name"`
	Hosts []struct {
		Domains []string `json:"domains"`
	} `json:"virtual_hosts"`
}

type secretConfig struct {
	Name        string          `json:"name"`
	Certificate *tlsCertificate `json:"tls_certificate"`
	Validation  *struct {
		Trusted inline `json:"trusted_ca"`
	} `json:"validation_context"`
	Keys    json.RawMessage `json:"session_ticket_keys"`
	Generic json.RawMessage `json:"generic_secret"`
}

type tlsCertificate struct {
	Chain inline `json:"certificate_chain"`
}

type inline struct {
	Bytes string `json:"inline_bytes"`
	Text  string `json:"inline_string"`
	File  string `json:"filename"`
}

// firstCertificate returns the first certificate, or nil if it cannot be read.
func (i inline) firstCertificate() *x509.Certificate {
	text := []byte(i.Text)
	if i.Bytes != "" {
		text, _ = base64.StdEncoding.DecodeString(i.Bytes) // invalid base64 has no certificate
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil
	}
	c, _ := x509.ParseCertificate(block.Bytes)
	return c
}

func readDump(answer io.Reader) (dump, error) {
	var all struct {
		Configs []map[string]json.RawMessage `json:"configs"`
	}
	if err := json.NewDecoder(answer).Decode(&all); err != nil {
		return nil, err
	}
	d := dump{}
	for _, config := range all.Configs {
		for name, list := range config {
			if !isKnownList(name) {
				continue
			}
			var items []item
			if err := json.Unmarshal(list, &items); err != nil {
				return nil, err
			}
			d[name] = append(d[name], items...)
		}
	}
	return d, nil
}

var listName = regexp.MustCompile(`^(static|dynamic|dynamic_active|dynamic_warming)_(clusters|endpoint_configs|listeners|route_configs|secrets)$`)

func isKnownList(list string) bool { return listName.MatchString(list) }

func (d dump) rows(lists []string, wanted *regexp.Regexp) (rows [][]string) {
	for _, list := range lists {
		for _, i := range d[list] {
			if wanted.MatchString(i.name()) {
				rows = append(rows, i.rows(state(list))...)
			}
		}
	}
	return rows
}

// state returns the state of a list's items.
func state(list string) string {
	switch {
	case strings.HasPrefix(list, "static_"):
		return "static"
	case strings.HasPrefix(list, "dynamic_warming_"):
		return "warming"
	default:
		return "active"
	}
}

func (i item) name() string {
	switch {
	case i.Cluster != nil:
		return i.Cluster.Name
	case i.Endpoints != nil:
		return i.Endpoints.Name
	case i.Routes != nil:
		return i.Routes.Name
	case i.Listener != nil:
		return i.Listener.Name
	default:
		return i.Name
	}
}

// rows returns one row, or for a dynamic listener one for each of its states.
func (i item) rows(state string) [][]string {
	last := []string{state, i.Version, moment(i.Changed)}
	switch {
	case i.Cluster != nil:
		return [][]string{append([]string{i.Cluster.Name, cmp.Or(i.Cluster.Type, i.Cluster.Custom.Name)}, last...)}
	case i.Endpoints != nil:
		return [][]string{append(i.Endpoints.row(), last...)}
	case i.Routes != nil:
		return [][]string{append(i.Routes.row(), last...)}
	case i.Secret != nil:
		return [][]string{append(i.Secret.row(), last...)}
	case i.Listener != nil:
		return [][]string{append(i.Listener.row(), last...)}
	default:
		return i.listenerRows()
	}
}

func (i item) listenerRows() (rows [][]string) {
	for _, each := range []struct {
		state string
		*listenerState
	}{{"active", i.Active}, {"warming", i.Warming}, {"draining", i.Draining}} {
		if each.listenerState == nil || each.Listener == nil {
			continue
		}
		rows = append(rows, append(each.Listener.row(), each.state, each.Version, moment(each.Changed)))
	}
	if i.Refused != nil {
		rows = append(rows, []string{i.Name, "", "", "refused: " + i.Refused.Details, "", moment(i.Refused.At)})
	}
	return rows
}

func (l *listenerConfig) row() []string {
	chains := len(l.Chains)
	if len(l.Default) > 0 {
		chains++
	}
	return []string{l.Name, l.Address.String(), strconv.Itoa(chains)}
}

func (e *endpointConfig) row() []string {
	all, healthy := 0, 0
	for _, l := range e.Localities {
		for _, each := range l.Endpoints {
			all++
			if each.Health == "" || each.Health == "HEALTHY" || each.Health == "UNKNOWN" {
				healthy++
			}
		}
	}
	return []string{e.Name, strconv.Itoa(all), strconv.Itoa(healthy)}
}

// maxDomains bounds the listed domains: a sidecar has thousands.
const maxDomains = 3

func (r *routeConfig) row() []string {
	var domains []string
	for _, h := range r.Hosts {
		domains = append(domains, h.Domains...)
	}
	shown := strings.Join(domains[:min(maxDomains, len(domains))], ", ")
	if more := len(domains) - maxDomains; more > 0 {
		shown += " and " + strconv.Itoa(more) + " more"
	}
	return []string{r.Name, strconv.Itoa(len(r.Hosts)), shown}
}

func (s *secretConfig) row() []string {
	row := []string{s.Name, "", "", ""}
	var from inline
	switch {
	case s.Certificate != nil:
		row[1], from = "certificate", s.Certificate.Chain
	case s.Validation != nil:
		row[1], from = "roots", s.Validation.Trusted
	case len(s.Keys) > 0:
		row[1] = "session keys"
	case len(s.Generic) > 0:
		row[1] = "generic"
	}
	if c := from.firstCertificate(); c != nil {
		row[2], row[3] = namesOf(c), c.NotAfter.UTC().Format(time.RFC3339)
	} else if from.File != "" {
		row[2] = from.File
	}
	return row
}

func namesOf(c *x509.Certificate) string {
	names := slices.Clone(c.DNSNames)
	for _, u := range c.URIs {
		names = append(names, u.String())
	}
	if len(names) == 0 {
		return c.Subject.String()
	}
	return strings.Join(names, ", ")
}

// overviewRows counts the items of each type.
func overviewRows(answer io.Reader, _ *regexp.Regexp) (rows [][]string, err error) {
	d, err := readDump(answer)
	if err != nil {
		return nil, err
	}
	type count struct {
		has, warming, refused int
		last                  time.Time
	}
	counts := map[string]*count{}
	for list, items := range d {
		kind := plural[listName.FindStringSubmatch(list)[2]]
		if counts[kind] == nil {
			counts[kind] = &count{}
		}
		c := counts[kind]
		for _, i := range items {
			switch {
			case state(list) == "warming", i.Active == nil && i.Warming != nil:
				c.warming++
			default:
				c.has++
			}
			if i.Refused != nil {
				c.refused++
			}
			for _, at := range []time.Time{i.Changed, i.Active.changed(), i.Warming.changed()} {
				if at.After(c.last) {
					c.last = at
				}
			}
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		c := counts[kind]
		rows = append(rows, []string{kind, strconv.Itoa(c.has), strconv.Itoa(c.warming), strconv.Itoa(c.refused), moment(c.last)})
	}
	return rows, nil
}

var plural = map[string]string{
	"clusters": "clusters", "endpoint_configs": "endpoints", "listeners": "listeners", "route_configs": "routes", "secrets": "secrets",
}

func (l *listenerState) changed() time.Time {
	if l == nil {
		return time.Time{}
	}
	return l.Changed
}

func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
