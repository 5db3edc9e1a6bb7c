package wasm

import (
	"context"
	"errors"
	"net/url"

	"github.com/pgmesh/pgmesh/internal/kit/panics"
	"github.com/pgmesh/pgmesh/internal/kit/terse"
	"github.com/pgmesh/pgmesh/internal/places"
	"github.com/pgmesh/pgmesh/mesh-agent/wasm/fetch"
)

// mostAtAHost is how many modules are fetched from a host at a time. Others wait.
const mostAtAHost = 4

// attempt tries to get a module, for all who wait for it.
func (m *Modules) attempt(ctx context.Context, l *load) error {
	leave, ok := m.enter(ctx, l.request.URL)
	if !ok {
		return ctx.Err()
	}
	defer leave()
	limited, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	var digest, image string
	release := func() {}
	err := panics.Try("fetch", func() (err error) {
		digest, image, release, err = m.get(limited, l)
		return err
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	m.metrics.fetched(err)
	if err != nil {
		err = errors.New(terse.Kept(places.Reason(err, l.timeout), maxReason))
		m.fails(l, err.Error())
		return err
	}
	m.log.Info("a Wasm module is there", "from", l.from(), "digest", digest)
	m.succeeds(l, digest, image)
	release()
	m.save()
	return nil
}

// maxReason bounds the reason of a failure, which may quote servers.
const maxReason = 512

func (l *load) from() string { return places.Shown(l.request.URL) }

// turns are those of one host.
type turns struct {
	taken chan struct{} // has room for as many as may ask at once
	users int           // who take turns; guarded by Modules.mu
}

// enter waits for a turn at a host.
func (m *Modules) enter(ctx context.Context, at string) (leave func(), ok bool) {
	host := ""
	if u, err := url.Parse(at); err == nil {
		host = u.Host
	}
	m.mu.Lock()
	t := m.hosts[host]
	if t == nil {
		t = &turns{taken: make(chan struct{}, mostAtAHost)}
		m.hosts[host] = t
	}
	t.users++
	m.mu.Unlock()
	select {
	case t.taken <- struct{}{}:
		return func() { <-t.taken; m.leave(host, t) }, true
	case <-ctx.Done():
		m.leave(host, t)
		return nil, false
	}
}

func (m *Modules) leave(host string, t *turns) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t.users--; t.users == 0 {
		delete(m.hosts, host)
	}
}

// get finds a module, and reads it if it is not kept yet. It stays until release is called.
func (m *Modules) get(ctx context.Context, l *load) (digest, image string, release func(), err error) {
	found, err := m.fetcher.Find(ctx, l.request)
	if err != nil {
		return "", "", nil, err
	}
	if digest = m.kept.In(found.Image); digest != "" {
		if release, there := m.kept.Use(digest); there {
			return digest, found.Image, release, nil
		}
	}
	if digest, err = m.read(ctx, l, found); err != nil {
		return "", "", nil, err
	}
	release, there := m.kept.Use(digest)
	if !there {
		return "", "", nil, errors.New("it was fetched, and had to make room for others at once: raise --wasm-max-modules or --wasm-max-bytes")
	}
	return digest, found.Image, release, nil
}

func (m *Modules) read(ctx context.Context, l *load, found *fetch.Found) (string, error) {
	file, err := m.kept.Create()
	if err != nil {
		return "", err
	}
	defer file.Discard()
	digest, err := found.Save(ctx, &counted{file, m.metrics})
	if err != nil {
		return "", err
	}
	return digest, file.Keep(digest, l.from())
}
