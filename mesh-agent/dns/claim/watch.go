package claim

import (
	"context"
	"os"
	"slices"
	"time"
)

const (
	// lookEvery is how long a change may go unnoticed.
	lookEvery = 2 * time.Second
	// settleFor is how long domains differ before systemd-resolved is told, for it forgets what it knows when it is.
	settleFor = 10 * time.Second
	// A file that somebody else writes more often than this is theirs.
	quarrels       = 5
	quarrelsWithin = 10 * time.Minute
)

// Keep applies a claim until the context ends, and then takes it back. Domains, which may be nil, tells what to ask us for as the mesh
// changes. Who else writes the same file, as somebody does who follows the network, is not hindered: what they wrote is put behind us. But there is no end
// to it if they do the same, so then it is given up.
func (m *Machine) Keep(ctx context.Context, c Claim, domains func() []string) error {
	k := keeper{Machine: m, claim: c, domains: domains}
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for k.apply() {
		select {
		case <-look.C:
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

// keeper is what Keep remembers.
type keeper struct {
	*Machine

	claim   Claim
	domains func() []string

	claimed   bool
	differing time.Time // since when the domains are others
	quarrels  []time.Time
	failure   string
}

// apply makes it so, and reports whether there is a point in going on.
func (k *keeper) apply() bool {
	if k.claim.Mode == ResolvConf && justWritten(k.ResolvConf) {
		return true
	}
	moved := k.follow()
	changed, err := k.Apply(k.claim)
	switch {
	case err != nil:
		if err.Error() != k.failure {
			k.Log.Error("this machine cannot be told to ask for the mesh's names; it is tried again", "error", err)
		}
		k.failure = err.Error()
		return true
	case !k.claimed:
		k.claimed = true
		k.Log.Info("this machine asks the mesh's resolver for names", "by", k.claim.Mode, "resolver", k.claim.Server)
	case changed && !moved:
		return k.quarrel(time.Now())
	}
	k.failure = ""
	return true
}

// justWritten reports whether somebody may not be done with writing a file: who takes half of it for the whole loses the rest.
func justWritten(path string) bool {
	info, err := os.Stat(path)
	return err == nil && time.Since(info.ModTime()).Abs() < time.Second
}

// follow takes domains over that have differed for a while, or that are the first.
func (k *keeper) follow() (moved bool) {
	if k.domains == nil {
		return false
	}
	now := k.domains()
	switch {
	case slices.Equal(k.claim.Domains, now):
		k.differing = time.Time{}
		return false
	case k.claimed && k.differing.IsZero():
		k.differing = time.Now()
		return false
	case k.claimed && time.Since(k.differing) < settleFor:
		return false
	}
	k.claim.Domains, k.differing = now, time.Time{}
	return true
}

func (k *keeper) quarrel(now time.Time) bool {
	k.quarrels = append(slices.DeleteFunc(k.quarrels, func(t time.Time) bool { return now.Sub(t) > quarrelsWithin }), now)
	if len(k.quarrels) < quarrels {
		return true
	}
	k.Log.Error("somebody else writes the machine's resolvers again and again: they are left to them, and names of the mesh are not asked of us any more; "+
		"have them name our resolver (docs/dns.md)", "file", k.ResolvConf)
	return false
}
