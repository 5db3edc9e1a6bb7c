package publish

import (
	"slices"
	"time"
)

// Source is where what is served comes from, and how that stands to its mesh.
type Source struct {
	Name string // Database, Upstream or File
	// Mesh is the same for all sources of one mesh, "" where nobody knows.
	Mesh string
	// Path has the ids of the servers between this one and the database.
	Path []string
	// Stale is zero while the source has the newest state of its mesh, and else the time when it had it last.
	Stale time.Time
	// Saved says that the state is from a file that this server or one in the path has kept.
	Saved bool
	// Err is why it is stale, if this server found out itself.
	Err error
}

// The names of sources.
const (
	Database = "database"
	Upstream = "upstream"
	File     = "file"
)

// same tells whether clients would be told the same of two sources.
func (s Source) same(other Source) bool {
	return s.Name == other.Name && s.Mesh == other.Mesh && s.Stale.Equal(other.Stale) && s.Saved == other.Saved && slices.Equal(s.Path, other.Path)
}

// Begin says which source the next content is from. Until that comes, clients are told of the one before. What another mesh left is
// nothing to a source: clients that have it are sent what differs, but it stands in for nothing that the source cannot show.
func (p *Publisher) Begin(s Source) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.Mesh != p.next.Mesh {
		clear(p.sets)
	}
	p.next = s
}

// Stand says how the source stands now, which clients are told at once.
func (p *Publisher) Stand(s Source) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = s
	p.tell(s)
	p.heard()
}

// Lost says that the source cannot be read, and why. What it gave stays in force, and is stale from now on.
func (p *Publisher) Lost(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lost = err
	now := p.source
	now.Err = err
	if now.Stale.IsZero() {
		now.Stale = time.Now()
	}
	p.tell(now)
	p.heard()
}

// Source tells where what is served comes from. It has no name before anything is served.
func (p *Publisher) Source() Source {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.source
}

// Sign notes that the source shows signs of life, and will tell more. It counts from when the publisher was made, by a clock that does
// not jump.
func (p *Publisher) Sign() { p.sign.Store(int64(time.Since(p.made))) }

// LastSign is when the source has shown the last sign of life, or when the publisher was made.
func (p *Publisher) LastSign() time.Time { return p.made.Add(time.Duration(p.sign.Load())) }

// Heard is closed when the source has given something for the first time, or was found to be lost.
func (p *Publisher) Heard() <-chan struct{} { return p.first }

func (p *Publisher) heard() { p.firstOnce.Do(func() { close(p.first) }) }
