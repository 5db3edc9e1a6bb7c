package publish

import (
	"context"
	"slices"
	"time"
)

// Source is where the content comes from, and how current it is.
type Source struct {
	Name string // Database, Upstream, Registries or File
	// Mesh is the same for all sources of one mesh; "" if unknown.
	Mesh string
	// Path has the ids of the servers between this one and the database.
	Path []string
	// Stale is zero while the source has the newest state, and else the time when it had it last.
	Stale time.Time
	// Saved says that the state is from a file that a server in the path, or this one, saved.
	Saved bool
	// Registries are those of the server that is followed.
	Registries []RegistryStanding
	// Err is why the source is stale, if this server knows.
	Err error
}

// The names of sources.
const (
	Database = "database"
	Upstream = "upstream"
	File     = "file"
	// Registries is the source of a server that has nothing but its registries.
	Registries = "registries"
)

// equal reports whether clients would be told the same of both.
func (s Source) equal(other Source) bool {
	return s.Name == other.Name && s.Mesh == other.Mesh && s.Stale.Equal(other.Stale) && s.Saved == other.Saved && slices.Equal(s.Path, other.Path) &&
		slices.EqualFunc(s.Registries, other.Registries, func(a, b RegistryStanding) bool { return a.equal(&b) })
}

// Begin sets the source of the next content. Until that comes, clients are told of the current
// source. If the mesh is another, the last good states are forgotten: clients are sent the
// difference, but no state of another mesh replaces one that the source cannot show.
func (p *Publisher) Begin(s Source) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.Mesh != p.next.Mesh {
		clear(p.sets)
		p.layers.anew = true
	}
	p.next = s
	p.begin()
}

func (p *Publisher) begin() { p.begunOnce.Do(func() { close(p.begun) }) }

// Self waits until the source has begun, and returns this server's id and that of its mesh, "" if it
// has none.
func (p *Publisher) Self(ctx context.Context) (server, mesh string, err error) {
	select {
	case <-p.begun:
	case <-ctx.Done():
		return "", "", ctx.Err()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.id, p.next.Mesh, nil
}

// Stand updates the source, and tells clients at once.
func (p *Publisher) Stand(s Source) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = s
	p.updateSource(s)
	p.gotResult()
}

// Lost records that the source cannot be read. Its content stays in force, and is stale from now
// on.
func (p *Publisher) Lost(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lost = err
	now := p.source
	now.Err = err
	if now.Stale.IsZero() {
		now.Stale = time.Now()
	}
	p.updateSource(now)
	p.gotResult()
}

// Source returns the source of what is served. Its name is empty before anything is served.
func (p *Publisher) Source() Source {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.source
}

// Alive records that the source is making progress. The time counts from when the publisher was
// made, by the monotonic clock.
func (p *Publisher) Alive() { p.lastSign.Store(int64(time.Since(p.started))) }

// LastAlive returns when Alive was called last, or when the publisher was made.
func (p *Publisher) LastAlive() time.Time { return p.started.Add(time.Duration(p.lastSign.Load())) }

// FirstResult returns a channel that is closed when the source first delivers something or is lost.
func (p *Publisher) FirstResult() <-chan struct{} { return p.firstResult }

func (p *Publisher) gotResult() { p.firstResultOnce.Do(func() { close(p.firstResult) }) }
