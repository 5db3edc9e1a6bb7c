// Package status tells how an agent is: to people by mesh-agent status and what is beside it, over a socket in the state folder, and to
// machines over the status port.
//
// The parts of the agent know; this package asks each of them when somebody asks. What a part finds wrong it says in its Trouble, in a
// sentence that ends with what to do about it. A part that has nothing to do on this machine is not there.
package status

import "time"

// Report is how an agent is.
type Report struct {
	Agent        Agent         `json:"agent"`
	Identity     *Identity     `json:"identity,omitempty"`
	Discovery    *Discovery    `json:"discovery,omitempty"`
	XDS          *XDS          `json:"xds,omitempty"`
	Envoy        *Envoy        `json:"envoy,omitempty"`
	Registration *Registration `json:"registration,omitempty"`
	DNS          *DNS          `json:"dns,omitempty"`
	Redirection  *Redirection  `json:"redirection,omitempty"`
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

// Identity is who the machine is.
type Identity struct {
	ID string `json:"id,omitempty"` // empty: plaintext, for a demo
	// Source is mesh, for a certificate that discovery gives; files, for one of somebody else; none.
	Source  string    `json:"source"`
	Until   time.Time `json:"until,omitzero"`
	Trouble string    `json:"trouble,omitempty"`
}

// Discovery is whom the agent speaks with.
type Discovery struct {
	Addresses []string  `json:"addresses"`           // all that were given
	Replica   string    `json:"replica,omitempty"`   // the one that it is connected to
	Name      string    `json:"name,omitempty"`      // what that is called by its certificate
	Since     time.Time `json:"since,omitzero"`      // when it became connected, or ceased to be
	LastError string    `json:"lastError,omitempty"` // why the last connection ended or could not be made
	LastFail  time.Time `json:"lastFail,omitzero"`
	Trouble   string    `json:"trouble,omitempty"`
}

// XDS is where Envoy's configuration is from.
type XDS struct {
	// State is synced, last-good (discovery is away, and Envoy runs with what was kept) or waiting (Envoy has nothing yet).
	State string    `json:"state"`
	Since time.Time `json:"since,omitzero"`
	// Resources counts what Envoy has accepted, by type: clusters, endpoints, listeners, routes, …
	Resources map[string]int `json:"resources,omitempty"`
	Kept      time.Time      `json:"kept,omitzero"`         // of when the last good configuration is
	LastNACK  string         `json:"lastRefusal,omitempty"` // what Envoy refused last, and why
	Trouble   string         `json:"trouble,omitempty"`
}

// Envoy is the proxy that the agent keeps running.
type Envoy struct {
	PID      int       `json:"pid,omitempty"`
	Version  string    `json:"version,omitempty"`
	Since    time.Time `json:"since,omitzero"`
	Restarts int       `json:"restarts"` // those that it died for, since the agent began
	Epoch    int       `json:"epoch"`    // how many hot restarts there were before it
	Adopted  bool      `json:"adopted"`  // an earlier agent has started it
	Admin    string    `json:"admin,omitempty"`
	Ready    bool      `json:"ready"`
	LastEnd  string    `json:"lastEnd,omitempty"` // how the one before it ended
	Trouble  string    `json:"trouble,omitempty"`
}

// Registration is what this machine is to others.
type Registration struct {
	Services []Service `json:"services"`
	Trouble  string    `json:"trouble,omitempty"`
}

// Service is one of the services on this machine.
type Service struct {
	Group    string    `json:"group"`
	Entry    string    `json:"entry,omitempty"`   // its WorkloadEntry, once it is registered
	Refused  string    `json:"refused,omitempty"` // why it has none
	Health   string    `json:"health"`            // healthy, unhealthy or unknown
	Detail   string    `json:"detail,omitempty"`  // what is wrong with it
	Since    time.Time `json:"since,omitzero"`    // of its health
	Liveness string    `json:"liveness,omitempty"`
	Restarts int       `json:"restarts,omitempty"` // how often the action of its liveness was taken
	Trouble  string    `json:"trouble,omitempty"`
}

// DNS is the resolver of this machine.
type DNS struct {
	Listen   string   `json:"listen"`
	Names    int      `json:"names"`             // of the mesh, that it knows
	Forwards []string `json:"forwards"`          // who is asked for other names
	Managed  string   `json:"managed,omitempty"` // what of the machine's settings leads to it
	Trouble  string   `json:"trouble,omitempty"`
}

// Redirection is what of the machine's traffic goes through Envoy by itself.
type Redirection struct {
	By        string    `json:"by"` // nftables or iptables
	Rules     string    `json:"rules"`
	Confirmed time.Time `json:"confirmed,omitzero"` // when the rules were last told to stay
	Until     time.Time `json:"until,omitzero"`     // when they vanish if they are not told so again
	Trouble   string    `json:"trouble,omitempty"`
}

// Parts are how to ask the parts of an agent how they are, at any time and from any goroutine, without waiting for more than a moment. One that is nil is not there.
type Parts struct {
	Identity     func() Identity
	Discovery    func() Discovery
	XDS          func() XDS
	Envoy        func() Envoy
	Registration func() Registration
	DNS          func() DNS
	Redirection  func() Redirection
}

// Ask asks all of them.
func (p *Parts) Ask(agent Agent) Report {
	return Report{
		Agent:        agent,
		Identity:     ask(p.Identity),
		Discovery:    ask(p.Discovery),
		XDS:          ask(p.XDS),
		Envoy:        ask(p.Envoy),
		Registration: ask(p.Registration),
		DNS:          ask(p.DNS),
		Redirection:  ask(p.Redirection),
	}
}

func ask[T any](part func() T) *T {
	if part == nil {
		return nil
	}
	answer := part()
	return &answer
}

// Troubles are what the parts find wrong, each after its name.
func (r *Report) Troubles() (all []string) {
	add := func(part, trouble string) {
		if trouble != "" {
			all = append(all, part+": "+trouble)
		}
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
