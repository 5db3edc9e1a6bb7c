// Package tokens caches the bearer tokens of a mesh, so that callers are known while the database is
// away, and lets administrators create and revoke them.
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

// Book caches the tokens of a database.
type Book struct {
	source Source
	log    *slog.Logger

	mu      sync.Mutex
	tokens  map[caller.TokenHash]entry // nil until the first read
	failure error                      // the error of the last read, if it failed
	used    map[int64]time.Time        // the uses since the last note

	nextRead *pendingRead // the scheduled read; nil for none
	// readMu is held during a read for unknown tokens, and while it waits for earliestRead. It guards
	// earliestRead.
	readMu       sync.Mutex
	earliestRead time.Time
}

type entry struct {
	id    int64
	token caller.Token
}

// pendingRead is a scheduled read, shared by all callers that wait for it.
type pendingRead struct{ done chan struct{} } // closed after the read

var _ caller.Tokens = (*Book)(nil)

// New returns an empty book.
func New(s Source, log *slog.Logger) *Book {
	return &Book{source: s, log: log, used: map[int64]time.Time{}}
}

// Held returns the token with a hash, as of the last read.
func (b *Book) Held(hash caller.TokenHash) (caller.Token, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lookup(hash)
}

func (b *Book) lookup(hash caller.TokenHash) (caller.Token, error) {
	if b.tokens == nil {
		if b.failure != nil {
			return caller.Token{}, b.failure
		}
		return caller.Token{}, errors.New("they are not read yet")
	}
	found, known := b.tokens[hash]
	if !known {
		return caller.Token{}, caller.ErrUnknownToken
	}
	return found.token, nil
}

// minReadInterval bounds how often unknown tokens cause a read.
const minReadInterval = 100 * time.Millisecond

// Find returns the token with a hash. An unknown token may be new, so Find waits for a read of the
// database that begins after this call.
func (b *Book) Find(ctx context.Context, hash caller.TokenHash) (caller.Token, error) {
	b.mu.Lock()
	token, err := b.lookup(hash)
	if err == nil {
		b.mu.Unlock()
		return token, nil
	}
	upcoming := b.schedule()
	b.mu.Unlock()
	select {
	case <-upcoming.done:
		return b.Held(hash)
	case <-ctx.Done():
		return caller.Token{}, ctx.Err()
	}
}

// schedule schedules a read as soon as one is allowed, shared by all callers until it begins. The read
// does not end with its callers' contexts.
func (b *Book) schedule() *pendingRead {
	if b.nextRead != nil {
		return b.nextRead
	}
	r := &pendingRead{make(chan struct{})}
	b.nextRead = r
	go func() {
		b.readMu.Lock()
		defer b.readMu.Unlock()
		<-time.After(time.Until(b.earliestRead))
		b.mu.Lock()
		b.nextRead = nil
		b.mu.Unlock()
		b.Read(context.Background()) // bounded by the store's own timeouts
		b.earliestRead = time.Now().Add(minReadInterval)
		close(r.done)
	}()
	return r
}

// Read reads all tokens. If that fails, the tokens known so far stay.
func (b *Book) Read(ctx context.Context) {
	rows, err := b.source.Tokens(ctx)
	if err == nil {
		b.Take(rows)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failure = err
}

// Take replaces the cached tokens.
func (b *Book) Take(rows []callers.Token) {
	tokens := make(map[caller.TokenHash]entry, len(rows))
	for _, row := range rows {
		if len(row.Hash) != len(caller.TokenHash{}) {
			continue
		}
		tokens[caller.TokenHash(row.Hash)] = entry{row.ID, b.tokenOf(row)}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tokens, b.failure = tokens, nil
}

// tokenOf converts a row. It skips unknown scopes, which a newer program may have written.
func (b *Book) tokenOf(row callers.Token) caller.Token {
	t := caller.Token{Name: row.Name, Expires: row.Expires, Revoked: row.Revoked}
	for _, text := range row.Scopes {
		scope, err := caller.ParseScope(text)
		if err != nil {
			b.log.Warn("left out a scope of a token", "token", row.Name, "error", err)
			continue
		}
		t.Scopes = append(t.Scopes, scope)
	}
	return t
}

// Used records that a token was used.
func (b *Book) Used(hash caller.TokenHash) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e, known := b.tokens[hash]; known {
		b.used[e.id] = time.Now()
	}
}

// noteInterval is how often uses are written to the database, which stores them to the minute.
const noteInterval = 30 * time.Second

// Run writes the uses of tokens to the database until the context ends.
func (b *Book) Run(ctx context.Context) error {
	tick := time.NewTicker(noteInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			b.note(ctx)
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			b.note(last)
			return ctx.Err()
		}
	}
}

func (b *Book) note(ctx context.Context) {
	b.mu.Lock()
	used := b.used
	b.used = map[int64]time.Time{}
	b.mu.Unlock()
	if len(used) == 0 {
		return
	}
	if err := b.source.NoteTokenUses(ctx, used); err != nil {
		b.log.Debug("cannot note which tokens were used", "error", err)
	}
}
