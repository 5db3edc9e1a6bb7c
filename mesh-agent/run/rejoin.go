package run

import (
	"cmp"
	"errors"
	"slices"

	"github.com/pgmesh/pgmesh/mesh-agent/identity/member"
	"github.com/pgmesh/pgmesh/mesh-agent/status"
)

// joined is what mesh-agent join decides beside the identity, as far as flags leave it open.
type joined struct {
	servers, groups []string
	id              string
}

func (a *agent) joined() (j joined) {
	m := &a.Machine
	j.servers, _ = m.Servers() // reported where they are needed
	for _, s := range m.Services() {
		j.groups = append(j.groups, s.Group)
	}
	j.id = cmp.Or(m.Given.ID, m.State.ID())
	return j
}

func (j joined) equal(other joined) bool {
	return slices.Equal(j.servers, other.servers) && slices.Equal(j.groups, other.groups) && j.id == other.id
}

var (
	errOwnFiles = errors.New("it has its identity from the files of --tls-cert, and not from what mesh-agent join gets: run it without these flags")
	errInsecure = errors.New("it runs with --insecure, and has no identity: run it without that flag")
	errTied     = errors.New("its Envoy is tied to it (--tie-envoy), so it cannot become another while it runs: end it and start it again")
)

// rejoin takes up what mesh-agent join has put into the state folder. A new certificate of the same
// identity counts at once, for Envoy too. If the machine is to be another, or to be elsewhere, the
// agent has to start anew, and Envoy is replaced without losing a request.
func (a *agent) rejoin() (status.Rejoined, error) {
	switch a.who.Source {
	case member.FromFiles:
		return status.Rejoined{}, errOwnFiles
	case member.Insecure:
		return status.Rejoined{}, errInsecure
	case member.FromMesh:
	}
	another, err := a.who.Adopt()
	switch {
	case err != nil:
		return status.Rejoined{}, err
	case !another && a.joined().equal(a.began):
		return status.Rejoined{}, nil
	case !a.supervisor.CanReload():
		return status.Rejoined{}, errTied
	}
	a.log.Info("this machine has joined again as another, or elsewhere")
	return status.Rejoined{Anew: true}, nil
}
