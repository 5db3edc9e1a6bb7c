package serve

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/pgmesh/pgmesh/internal/kit/replace"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/identity/callers"
	"github.com/pgmesh/pgmesh/store/identity/trust"
	"github.com/pgmesh/pgmesh/store/notifications"
)

// knownCallers is what a server needs to know of its callers: the tokens, as hashes, and what
// readers are shown. The server saves it, because without it nobody could be served the saved
// snapshot while the database is away.
type knownCallers struct {
	Places  []string         `json:"places"`
	Readers []callers.Reader `json:"readers"`
	Tokens  []callers.Token  `json:"tokens"`
}

const (
	// callersPollInterval bounds how long a lost notification may hide a revoked token, or a change
	// of what readers are shown.
	callersPollInterval = 2 * time.Second

	// recallAfter is how long a database may not answer before the saved callers are used.
	recallAfter = 3 * time.Second

	callersFile = "mcp-server.callers"
)

// followCallers reads the callers after each notification and at the poll interval, until the
// context ends.
func (d *database) followCallers(ctx context.Context) error {
	return notifications.Awaken(ctx, d.store, callersPollInterval, func(table string) { d.readCallers(ctx, table) })
}

// readCallers reads the tables that a notification names; all for "". A table that cannot be read
// stays as it was known.
func (d *database) readCallers(ctx context.Context, table string) {
	if trust.Concerns(table) { // first, so that nothing delays a revocation
		d.authority.Read(ctx)
	}
	if table == "tokens" || table == "" {
		if rows, err := d.callers.Tokens(ctx); err == nil {
			d.tokenCache.Take(rows)
			d.door.guard.Recheck()
			d.known.Tokens = rows
		}
	}
	if table == "readers" || table == "" {
		if rows, err := d.callers.Readers(ctx); err == nil {
			d.views.Show(rows)
			d.known.Readers = rows
		}
	}
	d.keepCallers()
}

// keepCallers writes the file unless it has the same content.
func (d *database) keepCallers() {
	if d.options.StateDir == "" {
		return
	}
	d.known.Places = d.places()
	for i := range d.known.Tokens {
		d.known.Tokens[i].Used = time.Time{} // only the database records uses
	}
	text, err := json.Marshal(d.known)
	if err != nil || bytes.Equal(text, d.kept) {
		return
	}
	sum := sha256.Sum256(text)
	if err := replace.File(filepath.Join(d.options.StateDir, callersFile), fmt.Appendf(nil, "%x\n%s\n", sum, text)); err != nil {
		d.options.Log.Error("cannot save what is known of callers: a server that starts while the database is away will let nobody in", "error", err)
		return
	}
	d.kept = text
}

// recall restores what was saved, once, if the database does not answer or, by an error, cannot be used.
func (d *database) recall(ctx context.Context, err error) {
	if d.options.StateDir == "" {
		return
	}
	d.recalled.Do(func() {
		why := "the database does not answer"
		if err != nil && !store.Temporary(err) {
			why = "the database answers, and cannot be used"
		}
		d.recallAuthority(ctx, why)
		path := filepath.Join(d.options.StateDir, callersFile)
		saved, err := loadCallers(path, d.places())
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			d.options.Log.Error("what was saved of callers cannot be used: until the database is there, bearers of tokens are not let in and readers wait",
				"file", path, "error", err)
		default:
			d.tokenCache.Take(saved.Tokens)
			d.views.Show(saved.Readers)
			d.options.Log.Warn(why+": going by what was saved of callers", "tokens", len(saved.Tokens), "readers", len(saved.Readers))
		}
	})
}

func loadCallers(path string, places []string) (saved knownCallers, err error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return saved, err
	}
	sum, text, _ := bytes.Cut(content, []byte("\n"))
	text = bytes.TrimSuffix(text, []byte("\n"))
	if string(sum) != fmt.Sprintf("%x", sha256.Sum256(text)) {
		return saved, errors.New("it is damaged: its checksum is another")
	}
	if err := json.Unmarshal(text, &saved); err != nil {
		return saved, err
	}
	if !slices.ContainsFunc(saved.Places, func(p string) bool { return slices.Contains(places, p) }) {
		return knownCallers{}, fmt.Errorf("it is from %v, and this server reads from %v", saved.Places, places)
	}
	return saved, nil
}
