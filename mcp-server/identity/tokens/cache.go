// Package tokens caches the bearer tokens of a mesh, so that callers are known while the database
// is away, and lets administrators create and revoke them.
package tokens

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/store/identity/callers"
)

// Source is where tokens are stored.
type Source interface {
	Tokens(ctx context.Context) ([]callers.Token, error)
	NoteTokenUses(ctx context.Context, uses map[int64]time.Time) error
}

// Cache holds the tokens of a database.
type Cache struct {
	source Source
	log    *slog.Logger

	mu      sync.Mutex
	tokens  map[caller.TokenHash]entry // nil until the first read
	failure error                      // the error of the last read, if it failed
	used    map[int64]time.Time        // the uses since the last note

	nextRead *pendingRead // the scheduled read; nil for none
	// readMu is held during a read for unknown tokens, and while it waits for earliestRead. It
	// guards earliestRead.
	readMu       sync.Mutex
	earliestRead time.Time
}

type entry struct {
	id    int64
	token caller.Token
}

// pendingRead is a scheduled read, shared by all callers that wait for it.
type pendingRead struct{ done chan struct{} } // closed after the read

var _ caller.Tokens = (*Cache)(nil)

// New returns an empty cache.
func New(s Source, log *slog.Logger) *Cache {
	return &Cache{source: s, log: log, used: map[int64]time.Time{}}
}

// Held returns the token with a hash, as of the last read.
func (c *Cache) Held(hash caller.TokenHash) (caller.Token, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lookup(hash)
}

func (c *Cache) lookup(hash caller.TokenHash) (caller.Token, error) {
	if c.tokens == nil {
		if c.failure != nil {
			return caller.Token{}, c.failure
		}
		return caller.Token{}, errors.New("they are not read yet")
	}
	found, known := c.tokens[hash]
	if !known {
		return caller.Token{}, caller.ErrUnknownToken
	}
	return found.token, nil
}

// minReadInterval bounds how often unknown tokens cause a read.
const minReadInterval = 100 * time.Millisecond

// Find returns the token with a hash. An unknown token may be new, so Find waits for a read of the
// database that begins after this call.
func (c *Cache) Find(ctx context.Context, hash caller.TokenHash) (caller.Token, error) {
	c.mu.Lock()
	token, err := c.lookup(hash)
	if err == nil {
		c.mu.Unlock()
		return token, nil
	}
	upcoming := c.schedule()
	c.mu.Unlock()
	select {
	case <-upcoming.done:
		return c.Held(hash)
	case <-ctx.Done():
		return caller.Token{}, ctx.Err()
	}
}

// schedule schedules a read as soon as one is allowed, shared by all callers until it begins. The
// read does not end with its callers' contexts.
func (c *Cache) schedule() *pendingRead {
	if c.nextRead != nil {
		return c.nextRead
	}
	r := &pendingRead{make(chan struct{})}
	c.nextRead = r
	go func() {
		c.readMu.Lock()
		defer c.readMu.Unlock()
		<-time.After(time.Until(c.earliestRead))
		c.mu.Lock()
		c.nextRead = nil
		c.mu.Unlock()
		c.Read(context.Background()) // bounded by the store's own timeouts
		c.earliestRead = time.Now().Add(minReadInterval)
		close(r.done)
	}()
	return r
}

// Read reads all tokens. If that fails, the tokens known so far stay.
func (c *Cache) Read(ctx context.Context) {
	rows, err := c.source.Tokens(ctx)
	if err == nil {
		c.Take(rows)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failure = err
}

// Take replaces the cached tokens.
func (c *Cache) Take(rows []callers.Token) {
	tokens := make(map[caller.TokenHash]entry, len(rows))
	for _, row := range rows {
		if len(row.Hash) != len(caller.TokenHash{}) {
			continue
		}
		tokens[caller.TokenHash(row.Hash)] = entry{row.ID, c.tokenOf(row)}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tokens, c.failure = tokens, nil
}

// tokenOf converts a row. It skips unknown scopes, which a newer program may have written.
func (c *Cache) tokenOf(row callers.Token) caller.Token {
	t := caller.Token{Name: row.Name, Expires: row.Expires, Revoked: row.Revoked}
	for _, text := range row.Scopes {
		scope, err := caller.ParseScope(text)
		if err != nil {
			c.log.Warn("left out a scope of a token", "token", row.Name, "error", err)
			continue
		}
		t.Scopes = append(t.Scopes, scope)
	}
	return t
}

// Used records that a token was used.
func (c *Cache) Used(hash caller.TokenHash) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, known := c.tokens[hash]; known {
		c.used[e.id] = time.Now()
	}
}

// noteInterval is how often uses are written to the database, which stores them to the minute.
const noteInterval = 30 * time.Second

// Run writes the uses of tokens to the database until the context ends.
func (c *Cache) Run(ctx context.Context) error {
	tick := time.NewTicker(noteInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			c.note(ctx)
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			c.note(last)
			return ctx.Err()
		}
	}
}

func (c *Cache) note(ctx context.Context) {
	c.mu.Lock()
	used := c.used
	c.used = map[int64]time.Time{}
	c.mu.Unlock()
	if len(used) == 0 {
		return
	}
	if err := c.source.NoteTokenUses(ctx, used); err != nil {
		c.log.Debug("cannot note which tokens were used", "error", err)
	}
}
