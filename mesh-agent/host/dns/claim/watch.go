package claim

import (
	"context"
	"os"
	"slices"
	"time"
)

const (
	// pollInterval is how often the configuration is checked.
	pollInterval = 2 * time.Second
	// domainsDelay is how long domains have to differ before systemd-resolved is told, because it
	// drops its cache then.
	domainsDelay = 10 * time.Second
	// A file that another program rewrites more often than this is left to it.
	maxConflicts   = 5
	conflictWindow = 10 * time.Minute
)

// Keep applies a claim until the context ends, and then reverts it. Domains, which may be nil,
// returns the domains to route as the mesh changes. If another program rewrites the file, such as
// one that follows the network, our server is put before its content again; if that keeps
// happening, Keep gives up.
func (m *Machine) Keep(ctx context.Context, c Claim, domains func() []string) error {
	k := keeper{Machine: m, claim: c, domains: domains}
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	for k.apply() {
		select {
		case <-poll.C:
			continue
		case <-ctx.Done():
		}
		break
	}
	<-ctx.Done()
	did, err := m.Restore()
	if did != "" {
		m.Log.Info("names are asked for as before", "did", did)
	}
	return err
}

// keeper is the state of Keep.
type keeper struct {
	*Machine

	claim   Claim
	domains func() []string

	claimed      bool
	differsSince time.Time // since when the domains differ from the claim's
	conflicts    []time.Time
	lastError    string
}

// apply applies the claim, and reports whether to continue.
func (k *keeper) apply() bool {
	if k.claim.Mode == ResolvConf && justWritten(k.ResolvConf) {
		return true
	}
	updated := k.updateDomains()
	changed, err := k.Apply(k.claim)
	switch {
	case err != nil:
		if err.Error() != k.lastError {
			k.Log.Error("this machine cannot be told to ask for the mesh's names; it is tried again", "error", err)
		}
		k.lastError = err.Error()
		return true
	case !k.claimed:
		k.claimed = true
		k.Log.Info("this machine asks the mesh's resolver for names", "by", k.claim.Mode, "resolver", k.claim.Server)
	case changed && !updated:
		return k.conflict(time.Now())
	}
	k.lastError = ""
	return true
}

// justWritten reports whether a file changed within the last second. Its writer may not be done,
// and reading half of it would lose the rest.
func justWritten(path string) bool {
	info, err := os.Stat(path)
	return err == nil && time.Since(info.ModTime()).Abs() < time.Second
}

// updateDomains applies domains that have differed for a while, and the first ones at once.
func (k *keeper) updateDomains() (updated bool) {
	if k.domains == nil {
		return false
	}
	now := k.domains()
	switch {
	case slices.Equal(k.claim.Domains, now):
		k.differsSince = time.Time{}
		return false
	case k.claimed && k.differsSince.IsZero():
		k.differsSince = time.Now()
		return false
	case k.claimed && time.Since(k.differsSince) < domainsDelay:
		return false
	}
	k.claim.Domains, k.differsSince = now, time.Time{}
	return true
}

func (k *keeper) conflict(now time.Time) bool {
	k.conflicts = append(slices.DeleteFunc(k.conflicts, func(t time.Time) bool { return now.Sub(t) > conflictWindow }), now)
	if len(k.conflicts) < maxConflicts {
		return true
	}
	k.Log.Error("somebody else writes the machine's resolvers again and again: they are left to them, and names of the mesh are not asked of us any more; "+
		"have them name our resolver (docs/dns.md)", "file", k.ResolvConf)
	return false
}
