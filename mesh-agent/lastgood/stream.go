package lastgood

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/pgmesh/pgmesh/mesh-agent/wire"
)

// Stream hears what passes on one of Envoy's streams.
type Stream struct {
	store  *Store
	form   wire.Form
	types  map[string]*conversation
	closed bool
}

// conversation is about one type.
type conversation struct {
	known  bool // Envoy has said something of it
	all    bool // Envoy wants everything of it
	fresh  bool // Envoy had nothing of it, and has accepted nothing yet
	offers map[string]*offer
	order  []string // nonces, the oldest first
}

// offer is a response that Envoy has not answered.
type offer struct {
	number  uint64
	version string
	places  map[string]*entry // what was written of it
	same    []string          // names of what is there as it was sent
	removed []string
}

// mostOffers is how many unanswered responses of a type are remembered. Envoy answers the last, or all in turn.
const mostOffers = 16

// Stream begins one.
func (s *Store) Stream(form wire.Form) *Stream {
	return &Stream{store: s, form: form, types: map[string]*conversation{}}
}

// Close ends it. What Envoy did not answer counts for nothing.
func (st *Stream) Close() {
	if st == nil {
		return
	}
	st.store.mu.Lock()
	defer st.store.mu.Unlock()
	st.closed = true
	for _, c := range st.types {
		for _, o := range c.offers {
			delete(st.store.offers, o)
		}
	}
}

func (st *Stream) of(typeURL string) *conversation {
	c := st.types[typeURL]
	if c == nil {
		c = &conversation{offers: map[string]*offer{}}
		st.types[typeURL] = c
	}
	return c
}

// keeps tells whether something of a type is to be kept.
func (st *Stream) keeps(typeURL string) bool {
	s := st.store
	return s.failed == nil && !s.closed && !st.closed && (typeURL != SecretType || s.options.Secrets)
}

// Offered hears a response, before Envoy does.
func (st *Stream) Offered(r *wire.Response) {
	if st == nil {
		return
	}
	s := st.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if !st.keeps(r.TypeURL) {
		return
	}
	s.number++
	o := &offer{number: s.number, version: r.Version, places: make(map[string]*entry, len(r.Resources)), removed: r.Removed}
	k := s.types[r.TypeURL]
	for _, one := range r.Resources {
		version := one.Version
		if version == "" {
			digest := sha256.Sum256(one.Body)
			version = "sha256:" + hex.EncodeToString(digest[:16])
		}
		if k != nil {
			if have := k.entries[one.Name]; have != nil && have.version == version {
				o.same = append(o.same, one.Name)
				continue
			}
		}
		at, err := s.current().append(&record{
			what: isOffer, number: o.number, typeURL: r.TypeURL, name: one.Name, version: version, aliases: one.Aliases, body: one.Body,
		})
		if err != nil {
			s.fail(err)
			return
		}
		o.places[one.Name] = &entry{at, version}
	}
	c := st.of(r.TypeURL)
	c.offers[r.Nonce] = o
	c.order = append(c.order, r.Nonce)
	s.offers[o] = struct{}{}
	if len(c.order) > mostOffers {
		st.drop(c, c.order[0])
	}
}

// drop forgets a response, which is the oldest for the most part.
func (st *Stream) drop(c *conversation, nonce string) {
	delete(st.store.offers, c.offers[nonce])
	delete(c.offers, nonce)
	for i, n := range c.order {
		if n == nonce {
			c.order = append(c.order[:i], c.order[i+1:]...)
			return
		}
	}
}

// Missing tells of which resources that Envoy has, from an earlier stream, there are not the same here: they were lost, or never
// kept.
func (st *Stream) Missing(r *wire.Request) map[string]bool {
	if st == nil || r.Held == 0 {
		return nil
	}
	st.store.mu.Lock()
	defer st.store.mu.Unlock()
	if !st.keeps(r.TypeURL) {
		return nil
	}
	missing, k := map[string]bool{}, st.store.types[r.TypeURL]
	r.Versions(func(name, version string) {
		if k == nil || k.entries[name] == nil || k.entries[name].version != version {
			missing[name] = true
		}
	})
	return missing
}

// Said hears what Envoy says.
func (st *Stream) Said(r *wire.Request) {
	if st == nil {
		return
	}
	s := st.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if !st.keeps(r.TypeURL) {
		return
	}
	c := st.of(r.TypeURL)
	switch {
	case !c.known:
		st.first(c, r)
	case st.form == wire.Delta:
		st.forget(r.TypeURL, r.Unsubscribe)
	case len(r.Names) > 0:
		st.retain(r.TypeURL, r.Names)
	}
	o := c.offers[r.Nonce]
	if r.Nonce == "" || o == nil {
		return
	}
	st.drop(c, r.Nonce)
	if !r.Refused {
		st.accept(r.TypeURL, c, o)
	}
}

// first is what Envoy says of a type before anything else.
func (st *Stream) first(c *conversation, r *wire.Request) {
	c.known = true
	asked := r.Subscribe
	if st.form == wire.SotW {
		asked = r.Names
	}
	c.all = len(asked) == 0 || len(asked) == 1 && asked[0] == "*"
	c.fresh = r.Held == 0 && r.Version == ""
	switch k := st.store.types[r.TypeURL]; {
	case k == nil || c.fresh:
	case c.all && st.form == wire.Delta: // it says what it has
		held := map[string]bool{}
		r.Versions(func(name, _ string) { held[name] = true })
		st.forget(r.TypeURL, k.without(held))
	case !c.all && r.TypeURL != virtualHosts: // it says all that it wants
		st.retain(r.TypeURL, asked)
	}
}

// virtualHosts are asked for by the names of the route configurations that they are of.
const virtualHosts = "type.googleapis.com/envoy.config.route.v3.VirtualHost"

func (k *kind) without(names map[string]bool) (gone []string) {
	for name := range k.entries {
		if !names[name] {
			gone = append(gone, name)
		}
	}
	return gone
}

// retain forgets all but some names.
func (st *Stream) retain(typeURL string, names []string) {
	k := st.store.types[typeURL]
	if k == nil {
		return
	}
	wanted := make(map[string]bool, len(names))
	for _, name := range names {
		if name == "*" {
			return
		}
		wanted[name] = true
	}
	st.forget(typeURL, k.without(wanted))
}

// forget is for what Envoy has no use for any more.
func (st *Stream) forget(typeURL string, names []string) {
	s := st.store
	k := s.types[typeURL]
	if k == nil {
		return
	}
	var gone []string
	for _, name := range names {
		if k.entries[name] != nil {
			gone = append(gone, name)
		}
	}
	if len(gone) == 0 {
		return
	}
	if _, err := s.current().append(&record{what: isForget, typeURL: typeURL, names: gone}); err != nil {
		s.fail(err)
		return
	}
	s.remove(k, gone)
	s.written()
}

// whole tells whether a state of the world has all that there is of a type: what is not in it is gone.
func whole(typeURL string) bool {
	switch called(typeURL) {
	case "clusters", "listeners", "scoped routes", "name tables":
		return true
	}
	return false
}

// accept makes what was sent what is kept.
func (st *Stream) accept(typeURL string, c *conversation, o *offer) {
	s := st.store
	removed := o.removed
	if k := s.types[typeURL]; k != nil && (c.fresh && c.all || st.form == wire.SotW && whole(typeURL)) {
		sent := map[string]bool{}
		for name := range o.places {
			sent[name] = true
		}
		for _, name := range o.same {
			sent[name] = true
		}
		removed = k.without(sent)
	}
	c.fresh = false
	now := time.Now()
	_, err := s.current().append(&record{what: isAccept, number: o.number, typeURL: typeURL, version: o.version, names: removed, at: uint64(now.Unix())})
	if err == nil {
		err = s.current().out.Flush() // a crash of the agent loses nothing from here on
	}
	if err != nil {
		s.fail(err)
		return
	}
	k := s.kind(typeURL)
	k.version, s.at = o.version, now
	for name, e := range o.places {
		s.put(k, name, e)
	}
	s.remove(k, removed)
	s.written()
}
