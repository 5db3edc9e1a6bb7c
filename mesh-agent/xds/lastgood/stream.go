package lastgood

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/pgmesh/pgmesh/mesh-agent/xds/wire"
)

// Stream follows one of Envoy's xDS streams, and stores what Envoy accepts on it. A nil Stream does
// nothing.
type Stream struct {
	store  *Store
	form   wire.Form
	types  map[string]*subscription
	closed bool
}

// subscription is the state of one type on the stream.
type subscription struct {
	seen   bool // the first request has arrived
	all    bool // wildcard subscription
	fresh  bool // Envoy began without resources and has accepted none yet
	offers map[string]*offer
	order  []string // nonces of offers, the oldest first
}

// offer is a response that Envoy has not answered.
type offer struct {
	number    uint64
	version   string
	written   map[string]*entry // resources appended to the log
	unchanged []string          // names of stored resources that are equal
	removed   []string
}

// maxOffers bounds the unanswered responses of a type. Envoy answers the last, or all in turn.
const maxOffers = 16

// Stream returns a Stream for a new xDS stream.
func (s *Store) Stream(form wire.Form) *Stream {
	return &Stream{store: s, form: form, types: map[string]*subscription{}}
}

// Close ends the stream. Unanswered responses are dropped.
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

func (st *Stream) subscription(typeURL string) *subscription {
	c := st.types[typeURL]
	if c == nil {
		c = &subscription{offers: map[string]*offer{}}
		st.types[typeURL] = c
	}
	return c
}

// stores reports whether resources of a type are stored.
func (st *Stream) stores(typeURL string) bool {
	s := st.store
	return s.failed == nil && !s.closed && !st.closed && (typeURL != SecretType || s.options.Secrets)
}

// OnResponse records a response before Envoy gets it.
func (st *Stream) OnResponse(r *wire.Response) {
	if st == nil {
		return
	}
	s := st.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if !st.stores(r.TypeURL) {
		return
	}
	s.number++
	o := &offer{number: s.number, version: r.Version, written: make(map[string]*entry, len(r.Resources)), removed: r.Removed}
	k := s.types[r.TypeURL]
	for _, one := range r.Resources {
		version := one.Version
		if version == "" {
			digest := sha256.Sum256(one.Body)
			version = "sha256:" + hex.EncodeToString(digest[:16])
		}
		if k != nil {
			if have := k.entries[one.Name]; have != nil && have.version == version {
				o.unchanged = append(o.unchanged, one.Name)
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
		o.written[one.Name] = &entry{at, version}
	}
	c := st.subscription(r.TypeURL)
	c.offers[r.Nonce] = o
	c.order = append(c.order, r.Nonce)
	s.offers[o] = struct{}{}
	if len(c.order) > maxOffers {
		st.drop(c, c.order[0])
	}
}

// drop forgets a response, which usually is the oldest.
func (st *Stream) drop(c *subscription, nonce string) {
	delete(st.store.offers, c.offers[nonce])
	delete(c.offers, nonce)
	for i, n := range c.order {
		if n == nonce {
			c.order = append(c.order[:i], c.order[i+1:]...)
			return
		}
	}
}

// Missing returns the names that Envoy has from an earlier stream, with a version that is not
// stored here.
func (st *Stream) Missing(r *wire.Request) map[string]bool {
	if st == nil || r.Held == 0 {
		return nil
	}
	st.store.mu.Lock()
	defer st.store.mu.Unlock()
	if !st.stores(r.TypeURL) {
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

// OnRequest applies a request: subscription changes, and the ACK or NACK of a response.
func (st *Stream) OnRequest(r *wire.Request) {
	if st == nil {
		return
	}
	s := st.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if !st.stores(r.TypeURL) {
		return
	}
	c := st.subscription(r.TypeURL)
	switch {
	case !c.seen:
		st.firstRequest(c, r)
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

// firstRequest handles the first request for a type. What Envoy does not have or want any more is
// forgotten.
func (st *Stream) firstRequest(c *subscription, r *wire.Request) {
	c.seen = true
	asked := r.Subscribe
	if st.form == wire.SotW {
		asked = r.Names
	}
	c.all = len(asked) == 0 || len(asked) == 1 && asked[0] == "*"
	c.fresh = r.Held == 0 && r.Version == ""
	switch k := st.store.types[r.TypeURL]; {
	case k == nil || c.fresh:
	case c.all && st.form == wire.Delta: // the request lists everything Envoy has
		held := map[string]bool{}
		r.Versions(func(name, _ string) { held[name] = true })
		st.forget(r.TypeURL, k.without(held))
	case !c.all && r.TypeURL != virtualHosts: // the request lists everything Envoy wants
		st.retain(r.TypeURL, asked)
	}
}

// virtualHosts are subscribed to by the names of their route configurations, so those names say
// nothing about stored ones.
const virtualHosts = "type.googleapis.com/envoy.config.route.v3.VirtualHost"

func (k *typeState) without(names map[string]bool) (gone []string) {
	for name := range k.entries {
		if !names[name] {
			gone = append(gone, name)
		}
	}
	return gone
}

// retain forgets all names but these.
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

// forget removes resources that Envoy does not use any more.
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
	s.afterWrite()
}

// listsAll reports whether a SotW response lists every resource of the type, so that a missing one
// is gone.
func listsAll(typeURL string) bool {
	switch typeName(typeURL) {
	case "clusters", "listeners", "scoped routes", "name tables":
		return true
	}
	return false
}

// accept stores an acknowledged response.
func (st *Stream) accept(typeURL string, c *subscription, o *offer) {
	s := st.store
	removed := o.removed
	if k := s.types[typeURL]; k != nil && (c.fresh && c.all || st.form == wire.SotW && listsAll(typeURL)) {
		sent := map[string]bool{}
		for name := range o.written {
			sent[name] = true
		}
		for _, name := range o.unchanged {
			sent[name] = true
		}
		removed = k.without(sent)
	}
	c.fresh = false
	now := time.Now()
	_, err := s.current().append(&record{what: isAccept, number: o.number, typeURL: typeURL, version: o.version, names: removed, at: uint64(now.Unix())})
	if err == nil {
		err = s.current().out.Flush() // from here on a crash of the agent loses nothing
	}
	if err != nil {
		s.fail(err)
		return
	}
	k := s.typeState(typeURL)
	k.version, s.acceptedAt = o.version, now
	for name, e := range o.written {
		s.put(k, name, e)
	}
	s.remove(k, removed)
	s.afterWrite()
}
