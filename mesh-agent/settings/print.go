package settings

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/pflag"
	"google.golang.org/protobuf/encoding/protojson"

	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
)

// Setting is the value of a flag in force.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	From  string `json:"from"`
}

// List returns the settings in force, with secrets masked.
func List(flags *pflag.FlagSet, without ...string) (all []Setting) {
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name == "help" || slices.Contains(without, f.Name) {
			return
		}
		s := Setting{f.Name, strings.Trim(f.Value.String(), "[]"), Origin(f)}
		if Secret(f.Name) && s.Value != "" {
			s.Value = "(not shown)"
		}
		all = append(all, s)
	})
	return all
}

// WriteTable prints settings and services for people.
func (f *File) WriteTable(out io.Writer, list []Setting) error {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "SETTING\tVALUE\tFROM")
	for _, s := range list {
		fmt.Fprintf(w, "%s\t%s\t%s\n", s.Name, s.Value, s.From)
	}
	if err := w.Flush(); err != nil || len(f.Services) == 0 {
		return err
	}
	fmt.Fprintln(w, "\nSERVICE\tPORTS\tREADY\tALIVE")
	for _, s := range f.Services {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", s.Group, s.portList(), describe(s.Readiness), s.Liveness.describe())
	}
	return w.Flush()
}

// WriteJSON prints them for programs.
func (f *File) WriteJSON(out io.Writer, list []Setting) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(struct {
		File     string    `json:"file"`
		Settings []Setting `json:"settings"`
		Services []Service `json:"services"`
	}{f.Path, list, f.Services})
}

func (s Service) portList() string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(s.Ports)) {
		all = append(all, fmt.Sprintf("%s=%d", name, s.Ports[name]))
	}
	return strings.Join(all, ",")
}

// describe formats a probe as a URL or a command.
func describe(p *machinev1.Probe) string {
	switch {
	case p.GetHttp() != nil:
		h := p.GetHttp()
		return strings.ToLower(orElse(h.GetScheme(), "http")) + "://" + hostPort(h.GetHost(), h.GetPort()) + orElse(h.GetPath(), "/")
	case p.GetTcp() != nil:
		return "tcp://" + hostPort(p.GetTcp().GetHost(), p.GetTcp().GetPort())
	case p.GetGrpc() != nil:
		return "grpc://" + hostPort("", p.GetGrpc().GetPort()) + "/" + p.GetGrpc().GetService()
	case p.GetExec() != nil:
		return strings.Join(p.GetExec().GetCommand(), " ")
	}
	return "-"
}

func hostPort(host string, port uint32) string {
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

func (l *Liveness) describe() string {
	if l == nil {
		return "-"
	}
	return describe(l.Probe) + ", else " + strings.Join(l.Action, " ")
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

// MarshalJSON encodes probes as protobuf's JSON does.
func (s Service) MarshalJSON() ([]byte, error) {
	type liveness struct {
		Probe  json.RawMessage `json:"probe"`
		Action []string        `json:"action"`
	}
	shown := struct {
		Group     string            `json:"group"`
		Ports     map[string]uint32 `json:"ports,omitempty"`
		Labels    map[string]string `json:"labels,omitempty"`
		Weight    uint32            `json:"weight,omitempty"`
		Readiness json.RawMessage   `json:"readiness,omitempty"`
		Liveness  *liveness         `json:"liveness,omitempty"`
	}{Group: s.Group, Ports: s.Ports, Labels: s.Labels, Weight: s.Weight, Readiness: probeJSON(s.Readiness)}
	if s.Liveness != nil {
		shown.Liveness = &liveness{probeJSON(s.Liveness.Probe), s.Liveness.Action}
	}
	return json.Marshal(shown)
}

func probeJSON(p *machinev1.Probe) json.RawMessage {
	if p == nil {
		return nil
	}
	text, _ := protojson.Marshal(p) // cannot fail: its strings were valid UTF-8 when read
	return text
}
