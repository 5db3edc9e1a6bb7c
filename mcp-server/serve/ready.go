package serve

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/pgmesh/pgmesh/mcp-server/watchdog"
)

// Patience configures how long a server tolerates a database that others block.
type Patience struct {
	LockTimeout     time.Duration // how long a statement waits for a lock; the store's default if 0
	TrustStaleAfter time.Duration // how long the trust may be unreadable before the server is not ready; 30 s if 0
	Watchdog        watchdog.Options
}

// trustStaleAfter is the default of TrustStaleAfter.
const trustStaleAfter = 30 * time.Second

// Flags declares the flags.
func (p *Patience) Flags(f *pflag.FlagSet) {
	f.DurationVar(&p.LockTimeout, "lock-timeout", 6*time.Second, "how long a change waits for what another session of the database has locked, before it is refused with who that is")
	f.DurationVar(&p.TrustStaleAfter, "trust-stale-after", trustStaleAfter, "how long what the mesh trusts may not be readable from a database that answers, before /readyz fails")
	f.DurationVar(&p.Watchdog.EndAfter, "end-blockers", 0, "end sessions of the database that keep others in the mesh waiting for so long, such as 30s; 0: never. Those of servers and owners are never ended")
}

func (p *Patience) trustStaleAfter() time.Duration { return cmp.Or(p.TrustStaleAfter, trustStaleAfter) }

// ready reports whether clients are served, and what blocks changes of the mesh.
func (s *server) ready(from source) (about string, err error) {
	if about, err = s.publisher.Ready(); err != nil {
		return "", err
	}
	more, err := from.standing()
	return joinTexts(about, more, s.aboutRegistries(), s.aboutAnnouncements()), err
}

// tellReady calls Options.Ready once clients are served.
func (s *server) tellReady(ctx context.Context) error {
	if s.options.Ready == nil {
		return nil
	}
	news := s.publisher.Subscribe()
	defer news.Close()
	for {
		if _, err := s.publisher.Ready(); err == nil {
			s.options.Ready()
			return nil
		}
		select {
		case <-news.Changed():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func joinTexts(texts ...string) string {
	var said []string
	for _, text := range texts {
		if text != "" {
			said = append(said, text)
		}
	}
	return strings.Join(said, "; ")
}

// standing reports problems with a database that others block, or whose schema they changed. Blocked changes do not make the
// server unready, because clients are still served and all servers would be unready at once. Stale
// trust does, because the server may trust somebody who was revoked; but not while the database is
// away, when nobody can be revoked and no server knows better.
func (d *database) standing() (about string, err error) {
	age, why := d.authority.Stale()
	if age >= d.options.Patience.trustStaleAfter() {
		text := fmt.Sprintf("what the mesh trusts could not be read for %s, and who was revoked since is trusted here", age.Round(time.Second))
		if !d.authority.StaleSince().IsZero() {
			return "", fmt.Errorf("%s: %w", text, why)
		}
		about = text
	}
	return joinTexts(about, d.watchdog.About(), d.installed.About()), nil
}
