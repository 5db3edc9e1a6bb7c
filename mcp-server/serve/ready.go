package serve

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/pgmesh/pgmesh/mcp-server/watchdog"
)

// Patience says how long a server bears with a database that others hold up.
type Patience struct {
	LockTimeout     time.Duration // how long a statement waits for a lock; the store's own if 0
	TrustStaleAfter time.Duration // how long what the mesh trusts may not be readable before the server is not ready; 30 s if 0
	Watchdog        watchdog.Options
}

// trustStaleAfter is what a server bears if nothing is said.
const trustStaleAfter = 30 * time.Second

// Flags declares the flags.
func (p *Patience) Flags(f *pflag.FlagSet) {
	f.DurationVar(&p.LockTimeout, "lock-timeout", 6*time.Second, "how long a change waits for what another session of the database has locked, before it is refused with who that is")
	f.DurationVar(&p.TrustStaleAfter, "trust-stale-after", trustStaleAfter, "how long what the mesh trusts may not be readable from a database that answers, before /readyz fails")
	f.DurationVar(&p.Watchdog.EndAfter, "end-blockers", 0, "end sessions of the database that keep others in the mesh waiting for so long, such as 30s; 0: never. Those of servers and owners are never ended")
}

func (p *Patience) trustStaleAfter() time.Duration { return cmp.Or(p.TrustStaleAfter, trustStaleAfter) }

// ready tells whether clients are answered, and what keeps the mesh from being changed.
func (s *server) ready(from source) (about string, err error) {
	if about, err = s.publisher.Ready(); err != nil {
		return "", err
	}
	more, err := from.standing()
	return joined(about, more), err
}

func joined(texts ...string) string {
	var said []string
	for _, text := range texts {
		if text != "" {
			said = append(said, text)
		}
	}
	return strings.Join(said, "; ")
}

// standing tells what is wrong with a database that others hold up. Whoever asks is served meanwhile, so nobody is sent elsewhere for changes that
// wait: all servers of the mesh would fail at once. A server that trusts who may be revoked is another matter, unless the database is away: then no
// server knows better, and nobody can be revoked.
func (d *database) standing() (about string, err error) {
	age, why := d.authority.Stale()
	if age >= d.options.Patience.trustStaleAfter() {
		text := fmt.Sprintf("what the mesh trusts could not be read for %s, and who was revoked since is trusted here", age.Round(time.Second))
		if !d.authority.StaleSince().IsZero() {
			return "", fmt.Errorf("%s: %w", text, why)
		}
		about = text
	}
	return joined(about, d.watchdog.About()), nil
}
