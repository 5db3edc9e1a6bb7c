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

// Options say what a Keeper has to go by.
type Options struct {
	// Server is mcp-server; nil where there is none.
	Server grpc.ClientConnInterface
	// Membership is discovery's own; nil where the operator brings certificates, and Roots are those by which machines are known.
	Membership *membership.Membership
	Roots      func() []byte
	// Own is the operator's authority, which then signs; nil for one that mcp-server gives.
	Own func() *authority.Authority
	// Folder is where the authority and, without a membership, the trust are kept; "" for nowhere.
	Folder  string
	Log     *slog.Logger
	Metrics prometheus.Registerer
}

// Keeper knows what the mesh trusts now, and has what discovery signs with.
type Keeper struct {
	options Options
	log     *slog.Logger
	metrics *metrics
	stale   staleness

	mu       sync.Mutex
	state    *State
	told     *identityv1.Trust // by mcp-server last; nil with a membership, which keeps it itself
	domain   string            // of the configuration, where nobody tells
	aliases  []string
	changed  chan struct{} // closed, and made anew, when there is another state
	delegate delegated
}

// New returns a keeper that knows what it knew before the start.
func New(o Options) *Keeper {
	k := &Keeper{options: o, log: o.Log, changed: make(chan struct{})}
	k.metrics = newMetrics(o.Metrics, k)
	k.readFolder()
	k.refresh()
	return k
}

// State is what the mesh trusts; nil as long as nobody knows.
func (k *Keeper) State() *State {
	s, _ := k.Watch()
	return s
}

// Watch is the state, and what is closed when there is another.
func (k *Keeper) Watch() (*State, <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.state, k.changed
}

// ConfigureDomain is told the trust domain of the configuration, and other names of it. They count where no mcp-server tells what is trusted.
func (k *Keeper) ConfigureDomain(domain string, aliases []string) {
	k.mu.Lock()
	k.domain, k.aliases = domain, aliases
	k.mu.Unlock()
	k.refresh()
}

// Refresh is for when the operator's files have changed.
func (k *Keeper) Refresh() { k.refresh() }

// refresh works the state out anew.
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

// read is what the mesh trusts by all that is known.
func (k *Keeper) read() *State {
	if k.options.Membership != nil {
		return stateOf(k.options.Membership.Current().Trust)
	}
	told := k.byFiles()
	if told.GetTrustDomain() == "" {
		return nil // nobody has told yet
	}
	s, err := Read(told)
	if err != nil {
		k.log.Error("what the mesh is said to trust cannot be used; what was trusted before stays in force", "error", err)
		return nil
	}
	return s
}

// byFiles is what mcp-server says, but for the roots, which the operator brings.
func (k *Keeper) byFiles() *identityv1.Trust {
	t := &identityv1.Trust{TrustDomain: k.domain, Aliases: k.aliases, Roots: k.options.Roots()}
	if k.told != nil {
		t.TrustDomain, t.Aliases = k.told.GetTrustDomain(), k.told.GetAliases()
		t.Federated, t.Revoked, t.Issuers = k.told.GetFederated(), k.told.GetRevoked(), k.told.GetIssuers()
		t.CertificateLifetimes, t.OwnGateways = k.told.GetCertificateLifetimes(), k.told.GetOwnGateways()
	}
	return t
}
