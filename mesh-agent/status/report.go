// Package status reports the state of an agent: to people over a socket in the state folder
// (mesh-agent status), and to other programs over the status port.
//
// The parts of the agent hold their state; this package asks them on demand. What a part finds
// wrong is its Trouble, a sentence that ends with what to do about it. A part that this machine
// does not use is nil.
package status

import (
	"strings"
	"time"
)

// Report is the state of an agent.
type Report struct {
	Revoked      *Revocation   `json:"revoked,omitempty"` // of a machine that is no member any more
	Agent        Agent         `json:"agent"`
	Drain        *DrainStatus  `json:"drain,omitempty"` // of a machine that is drained
	Identity     *Identity     `json:"identity,omitempty"`
	Discovery    *Discovery    `json:"discovery,omitempty"`
	XDS          *XDS          `json:"xds,omitempty"`
	Wasm         *Wasm         `json:"wasm,omitempty"`
	Envoy        *Envoy        `json:"envoy,omitempty"`
	Registration *Registration `json:"registration,omitempty"`
	DNS          *DNS          `json:"dns,omitempty"`
	Redirection  *Redirection  `json:"redirection,omitempty"`
}

// Revocation says that somebody has shut this machine out of the mesh.
type Revocation struct {
	Since  time.Time `json:"since,omitzero"`
	Whom   string    `json:"whom"` // "machine" and its enrolment, or "identity" and whose
	Reason string    `json:"reason,omitempty"`
	Do     string    `json:"do"` // what to do about it
}

// Agent is the program itself.
type Agent struct {
	PID      int       `json:"pid"`
	Version  string    `json:"version"`
	Since    time.Time `json:"since"`
	StateDir string    `json:"stateDir"`
	State    string    `json:"state"`
	Trouble  string    `json:"trouble,omitempty"`
}

// Identity is the machine's identity.
type Identity struct {
	ID string `json:"id,omitempty"` // empty for plaintext, as in a demo
	// Source is "mesh" for a certificate from discovery, "files" for one from another issuer, or
	// "none".
	Source  string    `json:"source"`
	Until   time.Time `json:"until,omitzero"`
	Trouble string    `json:"trouble,omitempty"`
}

// Discovery is the connection to discovery.
type Discovery struct {
	Addresses []string  `json:"addresses"`           // all configured addresses
	Replica   string    `json:"replica,omitempty"`   // the connected one
	Name      string    `json:"name,omitempty"`      // its name in its certificate
	Since     time.Time `json:"since,omitzero"`      // of the last change between connected and not
	LastError string    `json:"lastError,omitempty"` // of the last connection or attempt
	LastFail  time.Time `json:"lastFail,omitzero"`
	Trouble   string    `json:"trouble,omitempty"`
}

// XDS says where Envoy's configuration comes from.
type XDS struct {
	// State is "synced", "last-good" (discovery is away, and Envoy runs with the stored
	// configuration), "turned-away" (discovery refuses this proxy, and Envoy goes on with what it
	// has) or "waiting" (Envoy has none yet).
	State string    `json:"state"`
	Since time.Time `json:"since,omitzero"`
	// Resources counts what Envoy has accepted, by type: clusters, endpoints, listeners, routes, …
	Resources map[string]int `json:"resources,omitempty"`
	Kept      time.Time      `json:"kept,omitzero"`         // time of the last good configuration
	LastNACK  string         `json:"lastRefusal,omitempty"` // what Envoy refused last, and why
	Trouble   string         `json:"trouble,omitempty"`
}

// Wasm is what there is of the modules of Wasm plugins.
type Wasm struct {
	Modules []Module  `json:"modules,omitempty"`
	Failing []Missing `json:"failing,omitempty"`
}

// Module is a module that is kept on this machine.
type Module struct {
	Digest string    `json:"digest"`
	From   string    `json:"from"`
	Bytes  int64     `json:"bytes"`
	Since  time.Time `json:"since"`
}

// Missing is a module that plugins wait for.
type Missing struct {
	From    string   `json:"from"`
	Plugins []string `json:"plugins"` // the first few
	Reason  string   `json:"reason"`
}

// Envoy is the proxy that the agent runs.
type Envoy struct {
	PID      int       `json:"pid,omitempty"`
	Version  string    `json:"version,omitempty"`
	Since    time.Time `json:"since,omitzero"`
	Restarts int       `json:"restarts"` // after deaths, since the agent started
	Epoch    int       `json:"epoch"`    // hot restarts before it
	Adopted  bool      `json:"adopted"`  // an earlier agent started it
	Admin    string    `json:"admin,omitempty"`
	Ready    bool      `json:"ready"`
	LastEnd  string    `json:"lastEnd,omitempty"` // how its predecessor ended
	Trouble  string    `json:"trouble,omitempty"`
}

// Registration is the registration of this machine's services.
type Registration struct {
	Services []Service `json:"services"`
	Trouble  string    `json:"trouble,omitempty"`
}

// Service is a service on this machine.
type Service struct {
	Group    string    `json:"group"`
	Entry    string    `json:"entry,omitempty"`   // its WorkloadEntry, once registered
	Refused  string    `json:"refused,omitempty"` // why there is none
	Health   string    `json:"health"`            // healthy, unhealthy, unknown or draining
	Detail   string    `json:"detail,omitempty"`  // what is wrong
	Since    time.Time `json:"since,omitzero"`    // of its health
	Liveness string    `json:"liveness,omitempty"`
	Restarts int       `json:"restarts,omitempty"` // how often its liveness action was taken
	Trouble  string    `json:"trouble,omitempty"`
}

// DNS is the resolver of this machine.
type DNS struct {
	Listen   string   `json:"listen"`
	Names    int      `json:"names"`             // names of the mesh that it knows
	Forwards []string `json:"forwards"`          // resolvers for other names
	Managed  string   `json:"managed,omitempty"` // which configuration of the machine leads to it
	Trouble  string   `json:"trouble,omitempty"`
}

// Redirection is the redirection of the machine's traffic to Envoy.
type Redirection struct {
	By        string    `json:"by"` // nftables or iptables
	Rules     string    `json:"rules"`
	Confirmed time.Time `json:"confirmed,omitzero"` // when the rules were last confirmed
	Until     time.Time `json:"until,omitzero"`     // when they expire if not confirmed again
	Trouble   string    `json:"trouble,omitempty"`
}

// Parts are functions that report each part's state. They are called at any time from any
// goroutine, and must return within a moment. A nil function means that the part is not used.
type Parts struct {
	Revoked      func() *Revocation // nil for a member
	Identity     func() Identity
	Discovery    func() Discovery
	XDS          func() XDS
	Wasm         func() Wasm
	Envoy        func() Envoy
	Registration func() Registration
	DNS          func() DNS
	Redirection  func() Redirection
}

// Ask asks all parts.
func (p *Parts) Ask(agent Agent) Report {
	return Report{
		Revoked:      p.revoked(),
		Agent:        agent,
		Identity:     ask(p.Identity),
		Discovery:    ask(p.Discovery),
		XDS:          ask(p.XDS),
		Wasm:         ask(p.Wasm),
		Envoy:        ask(p.Envoy),
		Registration: ask(p.Registration),
		DNS:          ask(p.DNS),
		Redirection:  ask(p.Redirection),
	}
}

func (p *Parts) revoked() *Revocation {
	if p.Revoked == nil {
		return nil
	}
	return p.Revoked()
}

func ask[T any](part func() T) *T {
	if part == nil {
		return nil
	}
	answer := part()
	return &answer
}

// Troubles lists what the parts find wrong, each after the part's name.
func (r *Report) Troubles() (all []string) {
	add := func(part, trouble string) {
		if trouble != "" {
			all = append(all, part+": "+trouble)
		}
	}
	if v := r.Revoked; v != nil {
		add("membership", "the "+v.Whom+" was revoked, and nobody takes this machine for a member of the mesh: "+v.Do)
	}
	add("agent", r.Agent.Trouble)
	if r.Identity != nil {
		add("identity", r.Identity.Trouble)
	}
	if r.Discovery != nil {
		add("discovery", r.Discovery.Trouble)
	}
	if r.XDS != nil {
		add("xds", r.XDS.Trouble)
	}
	if r.Wasm != nil {
		for _, f := range r.Wasm.Failing {
			add("wasm", "the module of "+strings.Join(f.Plugins, ", ")+" is not there: "+f.Reason)
		}
	}
	if r.Envoy != nil {
		add("envoy", r.Envoy.Trouble)
	}
	if r.Registration != nil {
		add("registration", r.Registration.Trouble)
		for _, s := range r.Registration.Services {
			add("service "+s.Group, s.Trouble)
		}
	}
	if r.DNS != nil {
		add("dns", r.DNS.Trouble)
	}
	if r.Redirection != nil {
		add("redirection", r.Redirection.Trouble)
	}
	return all
}
