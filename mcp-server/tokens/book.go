// Package tokens knows the bearer tokens of a mesh: it keeps those of the database in memory, so that callers are known also while
// the database is away, and lets administrators make and revoke them.
package tokens

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/store"
)

// Source is where tokens are kept.
type Source interface {
	Tokens(ctx context.Context) ([]store.Token, error)
	NoteTokenUses(ctx context.Context, uses map[int64]time.Time) error
}

// Book has the tokens of a database.
type Book struct {
	source Source
	log    *slog.Logger

	mu      sync.Mutex
	tokens  map[caller.TokenHash]entry // nil until they were read once
	failure error                      // why they could not be read last
	used    map[int64]time.Time        // since that was noted last

	upcoming *reading // the one that has not begun
	// turn is held by a reading for somebody who is not known, and while it waits for next, when that may be.
	turn sync.Mutex
	next time.Time
}

type entry struct {
	id    int64
	token caller.Token
}

// reading is one look into the database, for whom it may be.
type reading struct{ done chan struct{} }

var _ caller.Tokens = (*Book)(nil)

// New returns a book that has nothing in it yet.
func New(s Source, log *slog.Logger) *Book {
	return &Book{source: s, log: log, used: map[int64]time.Time{}}
}

// Held returns the token with a hash, as it was read last.
func (b *Book) Held(hash caller.TokenHash) (caller.Token, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held(hash)
}

func (b *Book) held(hash caller.TokenHash) (caller.Token, error) {
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

// pace bounds how often those who present tokens that nobody knows make the book be read.
const pace = 100 * time.Millisecond

// Find returns the token with a hash. One that is not known may have been made a moment ago: it is looked for in the database, by a
// reading that begins after this call.
func (b *Book) Find(ctx context.Context, hash caller.TokenHash) (caller.Token, error) {
	b.mu.Lock()
	token, err := b.held(hash)
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

// schedule has the book read as soon as that may be again, once for all who ask until it begins. What is read then ends by itself, however
// long its callers wait.
func (b *Book) schedule() *reading {
	if b.upcoming != nil {
		return b.upcoming
	}
	r := &reading{make(chan struct{})}
	b.upcoming = r
	go func() {
		b.turn.Lock()
		defer b.turn.Unlock()
		<-time.After(time.Until(b.next))
		b.mu.Lock()
		b.upcoming = nil
		b.mu.Unlock()
		b.Read(context.Background()) // bounded by the store's own patience
		b.next = time.Now().Add(pace)
		close(r.done)
	}()
	return r
}

// Read takes over what the database has. If it cannot be asked, what was known stays.
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

// Take makes the tokens those that are known.
func (b *Book) Take(rows []store.Token) {
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

// tokenOf leaves out scopes that this program does not know, which a newer one may have given.
func (b *Book) tokenOf(row store.Token) caller.Token {
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

// Used notes that a token was presented.
func (b *Book) Used(hash caller.TokenHash) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e, known := b.tokens[hash]; known {
		b.used[e.id] = time.Now()
	}
}

// noteEvery is how often the database learns which tokens were used. It keeps the minute.
const noteEvery = 30 * time.Second

// Run notes in the database which tokens were used, until the context ends.
func (b *Book) Run(ctx context.Context) error {
	tick := time.NewTicker(noteEvery)
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
