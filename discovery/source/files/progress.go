package files

import "sync"

// progress tells which version of the files is in force. A batch may wait for its push after it was
// handed on, and files may be read anew meanwhile.
type progress struct {
	mu             sync.Mutex
	newest         string // the version that was read last
	inForce        string
	handed, pushed int64 // number the batches
}

// hand begins a batch of a version, and returns what is to be called once the batch is in force.
func (p *progress) hand(version string) (inForce func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.handed++
	p.newest = version
	batch := p.handed
	return func() { p.arrive(batch, version) }
}

func (p *progress) arrive(batch int64, version string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pushed, p.inForce = batch, version
	p.catchUp()
}

// same takes a version that says the same as the one before, which may still wait.
func (p *progress) same(version string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.newest = version
	p.catchUp()
}

// catchUp brings the newest version in force if no batch waits.
func (p *progress) catchUp() {
	if p.pushed == p.handed {
		p.inForce = p.newest
	}
}

// version is the one in force.
func (p *progress) version() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.inForce
}
