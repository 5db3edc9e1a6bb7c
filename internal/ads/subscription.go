package ads

import (
	"strconv"

	"github.com/pgmesh/pgmesh/internal/ads/quarantine"
	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// subscription is what one stream wants, has and must still be sent of one type. There may be a
// thousand clients with thirty types each, so small fields are at the end to save padding.
type subscription struct {
	typeURL   string // as the client wrote it
	canonical string
	typePlan  *typePlan
	// target is the newest set that is being sent.
	target *served.Set
	// withheld says that nothing is known of the type yet, so nothing is sent.
	withheld bool

	more map[string]bool // names that the client asks for; if namesHave, only those it does not have

	// have is what the client has once it has applied everything that was sent.
	have *served.Set
	// base is the last set that was sent completely; nil if the next one must be compared with all
	// of have.
	base *served.Set
	// goal is the last set that was sent, and reach is how much of it.
	goal *served.Set

	// asked are names that need a response.
	asked map[string]bool
	// repeated are the asked resources that the client already has, in its version.
	repeated map[string]*served.Resource

	belongs *ownedState // nil if the type's resources have no owners
	owns    *ownerState // nil if the type owns no others

	memory func() // releases the memory of requests; nil if none is reserved

	record record // published state; guarded by Stream.status.mu

	quarantine *quarantine.Quarantine // nil while the client refuses nothing
	delivery   *delivery              // the unanswered response, for the quarantine
	// retained is what the client keeps while it refuses something that may use it.
	retained *served.Set

	pending  string       // the nonce of the unanswered response's last part, or ""
	oldest   uint64       // the nonce of its first part
	revision string       // the revision of that response
	news     *served.News // the change in that response
	largest  int          // the bytes of its largest part

	reach           extent
	overtaken       uint8 // consecutive responses that were overtaken
	wildcard        bool
	namesHave       bool   // the client asks by name for everything it has
	explicit        bool   // the client has sent names, so no names no longer means everything
	unanswered      bool   // a response is due, even an empty one
	outOfSync       bool   // the client may have other versions than `have`, until it accepts a complete response
	outlives        bool   // Config.Outlive is true for the type
	sticks          string // what Config.Sticks has for the type
	partRefused     bool   // the client refused a part of the response that is pending
	refusalsChanged bool   // the refused resources have changed since they were published
	tried           bool   // the last response was a try of the quarantine, so the next may be a regular one
}

func newSubscription(typeURL, canonical string) *subscription {
	if typeURL == canonical {
		typeURL = canonical // share the string instead of keeping a copy per stream
	}
	return &subscription{typeURL: typeURL, canonical: canonical, unanswered: true}
}

// isPart reports whether a nonce is of an earlier part of the unanswered response than the last.
func (s *subscription) isPart(nonce string) bool {
	last, _ := strconv.ParseUint(s.pending, 10, 64)
	n, err := strconv.ParseUint(nonce, 10, 64)
	return err == nil && n >= s.oldest && n < last
}

// aim sets the target.
func (s *subscription) aim(at *served.Snapshot) {
	s.target, s.withheld = at.Sets[s.canonical], at.Withheld[s.canonical]
}

// begin starts with what the client has from an earlier stream.
func (s *subscription) begin(held map[string]string) {
	stubs := make([]*served.Resource, 0, len(held))
	for name, version := range held {
		stubs = append(stubs, &served.Resource{Name: name, Version: version})
	}
	s.have = served.None.With(stubs, nil)
}

// restart forgets what the client has, so that everything is sent again.
func (s *subscription) restart() {
	s.spellOut()
	s.have, s.unanswered, s.pending = served.None, true, ""
	s.refusalsChanged = s.refusalsChanged || s.quarantine != nil
	s.quarantine, s.delivery = nil, nil
	s.reconsider()
	clear(s.repeated)
	for n := range s.more {
		add(&s.asked, n, true)
	}
}

// add adds to a map, which it creates when needed: most subscriptions are wildcards and need none.
func add[V any](m *map[string]V, name string, value V) {
	if *m == nil {
		*m = map[string]V{}
	}
	(*m)[name] = value
}

// reconsider makes the next step compare everything that the client has and wants.
func (s *subscription) reconsider() { s.base, s.goal, s.reach = nil, nil, nothing }

// settled reports whether nothing is left to send at this extent.
func (s *subscription) settled(e extent) bool {
	return !s.regular(e) && !s.untried(e)
}

// open reports whether anything may be sent at all.
func (s *subscription) open(e extent) bool {
	return e != nothing && !s.withheld && !s.belongs.ownerless()
}

// regular reports whether something is left to send besides resources in doubt.
func (s *subscription) regular(e extent) bool {
	return s.open(e) && (s.unanswered || s.belongs.reviews() || len(s.asked) > 0 || s.goal != s.target || s.reach < e)
}
