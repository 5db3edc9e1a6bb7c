package inspect

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pgmesh/pgmesh/internal/kit/terminal"
	"github.com/pgmesh/pgmesh/mesh-agent/status"
)

// WriteReport prints a status for people: a line for each part, then what is wrong. That the machine
// was revoked comes first, as nothing else matters then.
func WriteReport(out io.Writer, r *status.Report, now time.Time) error {
	w := newTable(out)
	if v := r.Revoked; v != nil {
		line(w, "membership", "revoked", when("since ", v.Since, now), "the "+v.Whom, v.Reason)
	}
	a := r.Agent
	line(w, "agent", a.State, lasting(a.Since, now), fmt.Sprintf("process %d", a.PID), a.Version)
	if d := r.Drain; d != nil {
		line(w, "drain", "drained", lasting(d.Since, now), d.Left())
	}
	writeIdentity(w, r.Identity, now)
	writeDiscovery(w, r.Discovery, now)
	writeXDS(w, r.XDS, now)
	writeWasm(w, r.Wasm)
	writeEnvoy(w, r.Envoy, r.Drain != nil, now)
	if d := r.DNS; d != nil {
		line(w, "dns", "at "+d.Listen, count(d.Names, "name"), word("forwards to ", strings.Join(d.Forwards, ", ")), d.Managed)
	}
	if d := r.Redirection; d != nil {
		line(w, "redirection", d.By, d.Rules, when("confirmed ", d.Confirmed, now), when("ends ", d.Until, now))
	}
	writeModules(w, r.Wasm)
	writeServices(w, r.Registration)
	if err := w.Flush(); err != nil {
		return err
	}
	return writeTroubles(out, r.Troubles())
}

func writeTroubles(out io.Writer, troubles []string) error {
	if len(troubles) == 0 {
		return nil
	}
	fmt.Fprintln(out, "\nWhat is wrong:")
	for _, t := range troubles {
		if _, err := fmt.Fprintln(out, "- "+terminal.Line(t)); err != nil {
			return err
		}
	}
	return nil
}

func writeIdentity(w io.Writer, i *status.Identity, now time.Time) {
	switch {
	case i == nil:
	case i.ID == "":
		line(w, "identity", "none", "plaintext")
	default:
		line(w, "identity", i.ID, "from "+map[string]string{"mesh": "the mesh", "files": "files"}[i.Source], when("until ", i.Until, now))
	}
}

func writeDiscovery(w io.Writer, d *status.Discovery, now time.Time) {
	if d == nil {
		return
	}
	if d.Replica == "" {
		line(w, "discovery", "not connected", lasting(d.Since, now), "of "+strings.Join(d.Addresses, ", "), d.LastError)
		return
	}
	line(w, "discovery", d.Replica+word(" = ", d.Name), lasting(d.Since, now), "of "+strings.Join(d.Addresses, ", "), when("last failure ", d.LastFail, now))
}

func writeXDS(w io.Writer, x *status.XDS, now time.Time) {
	if x == nil {
		return
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(x.Resources)) {
		all = append(all, strconv.Itoa(x.Resources[name])+" "+name)
	}
	before := "" // what is refused now is beneath
	if x.Trouble == "" {
		before = word("refused last: ", x.LastNACK)
	}
	line(w, "xds", x.State, lasting(x.Since, now), strings.Join(all, ", "), when("kept ", x.Kept, now), before)
}

// writeWasm prints nothing for a machine without plugins.
func writeWasm(w io.Writer, m *status.Wasm) {
	if m == nil || len(m.Modules)+len(m.Failing) == 0 {
		return
	}
	bytes, missing := int64(0), ""
	for _, one := range m.Modules {
		bytes += one.Bytes
	}
	if n := len(m.Failing); n > 0 {
		missing = fmt.Sprintf("%d missing", n)
	}
	line(w, "wasm", count(len(m.Modules), "module"), fmt.Sprintf("%d bytes", bytes), missing)
}

func writeModules(w io.Writer, m *status.Wasm) {
	if m == nil || len(m.Modules) == 0 {
		return
	}
	fmt.Fprintln(w)
	row(w, "MODULE", "KEPT", "BYTES", "SHA256")
	for _, one := range m.Modules {
		row(w, one.From, from(one.Since), strconv.FormatInt(one.Bytes, 10), one.Digest)
	}
}

func writeEnvoy(w io.Writer, e *status.Envoy, drained bool, now time.Time) {
	if e == nil {
		return
	}
	if e.PID == 0 {
		line(w, "envoy", "not running", e.LastEnd)
		return
	}
	state := "not ready"
	switch {
	case e.Ready:
		state = "ready"
	case drained:
		state = "sends its clients away"
	}
	adopted := ""
	if e.Adopted {
		adopted = "adopted"
	}
	line(w, "envoy", state, lasting(e.Since, now), fmt.Sprintf("process %d", e.PID), e.Version, word("admin ", e.Admin), count(e.Restarts, "restart"),
		fmt.Sprintf("epoch %d", e.Epoch), adopted, word("before: ", e.LastEnd))
}

func writeServices(w io.Writer, r *status.Registration) {
	if r == nil || len(r.Services) == 0 {
		return
	}
	fmt.Fprintln(w)
	row(w, "SERVICE", "ENTRY", "HEALTH", "SINCE", "DETAIL")
	for _, s := range r.Services {
		detail := s.Detail
		if s.Refused != "" {
			detail = "refused: " + s.Refused
		}
		row(w, s.Group, s.Entry, s.Health, from(s.Since), detail)
	}
}

// line prints a part's name and the facts that are not empty.
func line(w io.Writer, name string, facts ...string) {
	facts = slices.DeleteFunc(facts, func(f string) bool { return f == "" })
	fmt.Fprintf(w, "%s\t%s\n", name, terminal.Line(strings.Join(facts, ", ")))
}

func word(before, text string) string {
	if text == "" {
		return ""
	}
	return before + text
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

// lasting says for how long something has been so.
func lasting(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	return "for " + span(now.Sub(t))
}

// from is the cell of a column SINCE: when the state of the row began.
func from(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04Z")
}

// when formats a time and its distance.
func when(before string, t, now time.Time) string {
	switch {
	case t.IsZero():
		return ""
	case t.After(now):
		return fmt.Sprintf("%s%s (in %s)", before, t.UTC().Format(time.RFC3339), span(t.Sub(now)))
	default:
		return fmt.Sprintf("%s%s (%s ago)", before, t.UTC().Format(time.RFC3339), span(now.Sub(t)))
	}
}

// span formats a duration in its largest units.
func span(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Minute:
		return strconv.Itoa(int(d.Seconds())) + "s"
	case d < time.Hour:
		return strconv.Itoa(int(d.Minutes())) + "m"
	case d < 2*day:
		return fmt.Sprintf("%dh%dm", int(d.Hours()), int(d.Minutes())%60)
	default:
		return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
	}
}
