package trust

import (
	"log/slog"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"github.com/pgmesh/pgmesh/identity/authority"
	"github.com/pgmesh/pgmesh/identity/membership"
	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
)

// Options are the inputs of a Keeper.
type Options struct {
	// Server is mcp-server; nil if there is none.
	Server grpc.ClientConnInterface
	// Membership is discovery's own, which knows the roots that machines are verified with. If the
	// operator brings certificates there is none, and Roots returns those roots. One of the two is
	// set.
	Membership *membership.Membership
	Roots      func() []byte
	// Own is the operator's authority, which then signs; nil if mcp-server gives one.
	Own func() *authority.Authority
	// Folder keeps the authority and, without a membership, the trust; "" for nowhere.
	Folder  string
	Log     *slog.Logger
	Metrics prometheus.Registerer
}

// Keeper knows what the mesh trusts now, and has the authority that discovery signs with.
type Keeper struct {
	options Options
	log     *slog.Logger
	metrics *metrics
	stale   staleness

	mu       sync.Mutex
	state    *State            // nil before anything is known
	told     *identityv1.Trust // last told by mcp-server; nil with a membership, which keeps it itself
	domain   string            // from the configuration, if no mcp-server tells
	aliases  []string
	changed  chan struct{} // closed and replaced whenever the state changes
	delegate delegated
}

// New returns a keeper with the state from before the start.
func New(o Options) *Keeper {
	k := &Keeper{options: o, log: o.Log, changed: make(chan struct{})}
	k.metrics = newMetrics(o.Metrics, k)
	k.readFolder()
	k.refresh()
	return k
}

// State returns what the mesh trusts; nil before that is known.
func (k *Keeper) State() *State {
	s, _ := k.Watch()
	return s
}

// Watch returns the state, and a channel that is closed when it changes.
func (k *Keeper) Watch() (*State, <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.state, k.changed
}

// ConfigureDomain sets the trust domain of the configuration, and its other names. They count if no
// mcp-server tells what is trusted.
func (k *Keeper) ConfigureDomain(domain string, aliases []string) {
	k.mu.Lock()
	k.domain, k.aliases = domain, aliases
	k.mu.Unlock()
	k.refresh()
}

// Refresh reads the operator's files again.
func (k *Keeper) Refresh() { k.refresh() }

// refresh computes the state again.
func (k *Keeper) refresh() {
	k.mu.Lock()
	defer k.mu.Unlock()
	next := k.read()
	if next == nil || k.state != nil && k.state.says(next) {
		return
	}
	k.state = next
	close(k.changed)
	k.changed = make(chan struct{})
}

// read computes the state from all that is known.
func (k *Keeper) read() *State {
	if k.options.Membership != nil {
		return stateOf(k.options.Membership.Current().Trust)
	}
	told := k.byFiles()
	if told.GetTrustDomain() == "" {
		return nil // nothing is known yet
	}
	s, err := Read(told)
	if err != nil {
		k.log.Error("what the mesh is said to trust cannot be used; what was trusted before stays in force", "error", err)
		return nil
	}
	return s
}

// byFiles is what mcp-server told, but with the roots that the operator brings.
func (k *Keeper) byFiles() *identityv1.Trust {
	t := &identityv1.Trust{TrustDomain: k.domain, Aliases: k.aliases, Roots: k.options.Roots()}
	if k.told != nil {
		t.TrustDomain, t.Aliases = k.told.GetTrustDomain(), k.told.GetAliases()
		t.Federated, t.Revoked, t.Issuers = k.told.GetFederated(), k.told.GetRevoked(), k.told.GetIssuers()
		t.CertificateLifetimes, t.OwnGateways = k.told.GetCertificateLifetimes(), k.told.GetOwnGateways()
	}
	return t
}
