// Package envoyview prints the state of an Envoy as tables, from its admin API. What the tables
// leave out is in Envoy's JSON.
package envoyview

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/pgmesh/pgmesh/internal/kit/terminal"
)

// View is a table of some part of Envoy's state.
type View struct {
	Name, Short, Example string
	// Path is the path in the admin API.
	Path string
	// NameParam is the query parameter that filters by regular expression, if Envoy supports that.
	NameParam string
	Header    []string
	// Rows makes a table of an answer. It filters by name again, which is harmless if Envoy has
	// done so.
	Rows func(answer io.Reader, wanted *regexp.Regexp) ([][]string, error)

	lists []string // lists of the configuration dump to show
}

// URL returns the path for what matches a name; "" for everything.
func (v View) URL(name string) string {
	if name == "" || v.NameParam == "" {
		return v.Path
	}
	separator := "?"
	if strings.Contains(v.Path, "?") {
		separator = "&"
	}
	return v.Path + separator + v.NameParam + "=" + url.QueryEscape(".*(?:"+name+").*") // some of Envoy's filters match the whole name
}

// Write prints a table of an answer.
func (v View) Write(out io.Writer, answer io.Reader, wanted *regexp.Regexp) error {
	rows, err := v.Rows(answer, wanted)
	if err != nil {
		return fmt.Errorf("read Envoy's answer: %w", err)
	}
	if len(rows) == 0 {
		_, err := fmt.Fprintln(out, "Envoy has none, or none of that name")
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	for _, row := range append([][]string{v.Header}, rows...) {
		for i, cell := range row {
			row[i] = cmp.Or(terminal.Line(cell), "-")
		}
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	return w.Flush()
}

// Raw returns Envoy's answer, limited to the view's lists.
func (v View) Raw(answer io.Reader) (any, error) {
	if len(v.lists) == 0 {
		all := json.RawMessage{}
		err := json.NewDecoder(answer).Decode(&all)
		return all, err
	}
	var all struct {
		Configs []map[string]json.RawMessage `json:"configs"`
	}
	if err := json.NewDecoder(answer).Decode(&all); err != nil {
		return nil, err
	}
	selected := map[string]json.RawMessage{}
	for _, config := range all.Configs {
		for _, list := range v.lists {
			if items, has := config[list]; has {
				selected["@type"], selected[list] = config["@type"], items
			}
		}
	}
	return map[string]any{"configs": []any{selected}}, nil
}

// Live lists the views of Envoy's activity.
var Live = []View{
	{
		Name: "clusters", Short: "List the clusters, with their connections and requests",
		Example: "  mesh-agent envoy clusters\n  mesh-agent envoy clusters --name cart",
		Path:    "/clusters?format=json", NameParam: "filter",
		Header: []string{"CLUSTER", "ENDPOINTS", "HEALTHY", "CONNECTIONS", "REQUESTS", "FAILED"}, Rows: clusterRows,
	},
	{
		Name: "endpoints", Short: "List the endpoints of clusters, with their health, connections and requests",
		Example: "  mesh-agent envoy endpoints\n  mesh-agent envoy endpoints --name cart",
		Path:    "/clusters?format=json", NameParam: "filter",
		Header: []string{"ENDPOINT", "HEALTH", "WEIGHT", "LOCALITY", "CONNECTIONS", "REQUESTS", "FAILED", "CLUSTER"}, Rows: endpointRows,
	},
	{
		Name: "listeners", Short: "List the addresses that are listened on",
		Example: "  mesh-agent envoy listeners\n  mesh-agent envoy listeners -o json",
		Path:    "/listeners?format=json",
		Header:  []string{"LISTENER", "ADDRESS"}, Rows: listenerRows,
	},
	{
		Name: "certs", Short: "List the certificates in use, and until when they are good",
		Example: "  mesh-agent envoy certs\n  mesh-agent envoy certs -o json",
		Path:    "/certs",
		Header:  []string{"USE", "NAMES", "SERIAL", "NOT AFTER", "DAYS LEFT"}, Rows: certificateRows,
	},
}

// address is an address in Envoy's JSON.
type address struct {
	Socket struct {
		Address string `json:"address"`
		Port    uint32 `json:"port_value"`
	} `json:"socket_address"`
	Pipe struct {
		Path string `json:"path"`
	} `json:"pipe"`
	Internal struct {
		Name string `json:"server_listener_name"`
	} `json:"envoy_internal_address"`
}

func (a address) String() string {
	switch {
	case a.Pipe.Path != "":
		return a.Pipe.Path
	case a.Internal.Name != "":
		return "internal:" + a.Internal.Name
	case a.Socket.Address == "":
		return ""
	default:
		return net.JoinHostPort(a.Socket.Address, strconv.Itoa(int(a.Socket.Port)))
	}
}

// counter is a number in Envoy's JSON, which may be a string.
type counter uint64

func (c *counter) UnmarshalJSON(text []byte) error {
	n, err := strconv.ParseUint(strings.Trim(string(text), `"`), 10, 64)
	*c = counter(n)
	return err
}

func (c counter) String() string { return strconv.FormatUint(uint64(c), 10) }

type clusters struct {
	All []struct {
		Name  string `json:"name"`
		Hosts []host `json:"host_statuses"`
	} `json:"cluster_statuses"`
}

type host struct {
	Address address `json:"address"`
	Stats   []struct {
		Name  string  `json:"name"`
		Value counter `json:"value"`
	} `json:"stats"`
	Health   map[string]any `json:"health_status"`
	Weight   uint32         `json:"weight"`
	Locality struct {
		Region  string `json:"region"`
		Zone    string `json:"zone"`
		SubZone string `json:"sub_zone"`
	} `json:"locality"`
}

// health combines the health that discovery sent with what Envoy found itself.
func (h host) health() (word string, healthy bool) {
	reported, _ := h.Health["eds_health_status"].(string)
	var found []string
	for _, each := range []struct{ key, word string }{
		{"failed_active_health_check", "fails checks"},
		{"failed_outlier_check", "ejected"},
		{"failed_active_degraded_check", "degraded"},
		{"pending_dynamic_removal", "to be removed"},
		{"pending_active_hc", "not checked yet"},
		{"excluded_via_immediate_hc_fail", "excluded"},
	} {
		if is, _ := h.Health[each.key].(bool); is {
			found = append(found, each.word)
		}
	}
	healthy = reported == "" || reported == "HEALTHY" || reported == "UNKNOWN"
	if len(found) > 0 {
		return strings.Join(found, ", "), false
	}
	return strings.ToLower(reported), healthy
}

func (h host) locality() string {
	return strings.TrimRight(strings.Join([]string{h.Locality.Region, h.Locality.Zone, h.Locality.SubZone}, "/"), "/")
}

func (h host) stat(names ...string) (all counter) {
	for _, s := range h.Stats {
		for _, name := range names {
			if s.Name == name {
				all += s.Value
			}
		}
	}
	return all
}

func (h host) traffic() (connections, requests, failed counter) {
	return h.stat("cx_active"), h.stat("rq_total"), h.stat("rq_error", "cx_connect_fail")
}

func clusterRows(answer io.Reader, wanted *regexp.Regexp) (rows [][]string, err error) {
	var c clusters
	if err := json.NewDecoder(answer).Decode(&c); err != nil {
		return nil, err
	}
	for _, each := range c.All {
		if !wanted.MatchString(each.Name) {
			continue
		}
		var healthy int
		var connections, requests, failed counter
		for _, h := range each.Hosts {
			if _, well := h.health(); well {
				healthy++
			}
			c, r, f := h.traffic()
			connections, requests, failed = connections+c, requests+r, failed+f
		}
		rows = append(rows, []string{
			each.Name, strconv.Itoa(len(each.Hosts)), strconv.Itoa(healthy), connections.String(), requests.String(), failed.String(),
		})
	}
	return rows, nil
}

func endpointRows(answer io.Reader, wanted *regexp.Regexp) (rows [][]string, err error) {
	var c clusters
	if err := json.NewDecoder(answer).Decode(&c); err != nil {
		return nil, err
	}
	for _, each := range c.All {
		if !wanted.MatchString(each.Name) {
			continue
		}
		for _, h := range each.Hosts {
			health, _ := h.health()
			connections, requests, failed := h.traffic()
			rows = append(rows, []string{
				h.Address.String(), health, strconv.Itoa(int(h.Weight)), h.locality(), connections.String(), requests.String(), failed.String(), each.Name,
			})
		}
	}
	return rows, nil
}

func listenerRows(answer io.Reader, wanted *regexp.Regexp) (rows [][]string, err error) {
	var all struct {
		Listeners []struct {
			Name       string    `json:"name"`
			Address    address   `json:"local_address"`
			Additional []address `json:"additional_local_addresses"`
		} `json:"listener_statuses"`
	}
	if err := json.NewDecoder(answer).Decode(&all); err != nil {
		return nil, err
	}
	for _, l := range all.Listeners {
		if !wanted.MatchString(l.Name) {
			continue
		}
		for _, a := range append([]address{l.Address}, l.Additional...) {
			rows = append(rows, []string{l.Name, a.String()})
		}
	}
	return rows, nil
}

// certificate is a certificate in Envoy's answer.
type certificate struct {
	Path   string `json:"path"`
	Serial string `json:"serial_number"`
	Names  []struct {
		URI string `json:"uri"`
		DNS string `json:"dns"`
		IP  string `json:"ip_address"`
	} `json:"subject_alt_names"`
	Days  counter   `json:"days_until_expiration"`
	Until time.Time `json:"expiration_time"`
}

func (c certificate) names() string {
	var all []string
	for _, n := range c.Names {
		all = append(all, n.URI+n.DNS+n.IP)
	}
	if len(all) == 0 && c.Path != "<inline>" {
		return c.Path
	}
	return strings.Join(all, ", ")
}

func certificateRows(answer io.Reader, wanted *regexp.Regexp) (rows [][]string, err error) {
	var all struct {
		Certificates []struct {
			Own   []certificate `json:"cert_chain"`
			Roots []certificate `json:"ca_cert"`
		} `json:"certificates"`
	}
	if err := json.NewDecoder(answer).Decode(&all); err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	add := func(use string, list []certificate) {
		for _, c := range list {
			row := []string{use, c.names(), c.Serial, c.Until.UTC().Format(time.RFC3339), c.Days.String()}
			key := strings.Join(row, "\t")
			if wanted.MatchString(c.names()) && !seen[key] { // every listener and cluster lists it again
				seen[key] = true
				rows = append(rows, row)
			}
		}
	}
	for _, c := range all.Certificates {
		add("own", c.Own)
		add("trusted", c.Roots)
	}
	return rows, nil
}
