package mcp

import (
	"errors"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/kinds"
	mcpv1 "github.com/pgmesh/pgmesh/proto/pgmesh/mcp/v1"
)

// errNothingToAsk means that the protocol has no name for any of the wanted kinds.
var errNothingToAsk = errors.New("the server's form of the protocol carries none of the kinds that are asked for")

// subscribe subscribes to every kind, and to what only a pgmesh server sends: its standing, and the
// ends of batches.
func (s *session) subscribe() error {
	var left []string
	for _, k := range s.client.cfg.Kinds {
		names := s.wire.names(k)
		if len(names) == 0 {
			left = append(left, k.Name)
			continue
		}
		if err := s.subscribeTo(k, names[0]); err != nil {
			return err
		}
	}
	if len(s.subscriptions) == 0 {
		return errNothingToAsk
	}
	if len(left) > 0 {
		s.client.cfg.Log.Info("the server cannot be asked for every kind; what there is of the others stays as it is",
			"server", s.at.target, "protocol", s.wire.protocol(), "without", strings.Join(left, ","))
	}
	if s.wire.protocol() == Legacy {
		return nil
	}
	if err := s.outbox.put(&request{typeURL: mcpv1.StandingTypeURL}); err != nil {
		return err
	}
	return s.outbox.put(&request{typeURL: mcpv1.BatchTypeURL})
}

// subscribeTo subscribes to a kind by one of its names. The client does not wait for answers about
// kinds without an envelope: Nacos never answers for them, and istiod does not wait for them
// either. Nor does it wait for secrets: only a pgmesh server has any, and one that may not tell
// leaves the request unanswered.
func (s *session) subscribeTo(k *kinds.Kind, name string) error {
	r := &request{typeURL: name, versions: s.state.versions(k, name)}
	s.state.rank(k, s.wire.names(k))
	if len(s.subscriptions) == 0 {
		r.node = s.client.node
	}
	q := &subscription{kind: k, required: !k.Bare && k != kinds.Secret}
	s.subscriptions[name] = q
	if q.required {
		s.unanswered++
	}
	return s.outbox.put(r)
}

// markAnswered notes that a subscription was answered, and subscribes by the kind's other names if
// it is empty. Istiod up to 1.23 and Nacos know only the older version of each kind, and do not say
// so.
func (s *session) markAnswered(q *subscription) error {
	if !q.answered {
		q.answered = true
		if q.required {
			s.unanswered--
		}
	}
	return s.askOtherNames(q.kind)
}

func (s *session) askOtherNames(k *kinds.Kind) error {
	names := s.wire.names(k)
	if s.pgmesh || !s.state.list(k, names[0]).empty() {
		return nil
	}
	for _, name := range names[1:] {
		if s.subscriptions[name] != nil {
			continue
		}
		if err := s.subscribeTo(k, name); err != nil {
			return err
		}
		s.subscriptions[name].optional = true
		s.answerTimer.Reset(s.client.cfg.AnswerTimeout)
	}
	return nil
}

// confirmed reports whether the server has answered for a kind on this stream.
func (s *session) confirmed(k *kinds.Kind) bool {
	for _, name := range s.wire.names(k) {
		if q := s.subscriptions[name]; q != nil && q.answered {
			return true
		}
	}
	return false
}

// removeUnsubscribed removes resources known only by names that this stream does not subscribe to.
// They come from another server or another version of it.
func (s *session) removeUnsubscribed() {
	for _, k := range s.client.cfg.Kinds {
		if !s.confirmed(k) {
			continue
		}
		for _, l := range s.state.kinds[k].lists {
			if s.subscriptions[l.name] != nil {
				continue
			}
			for name := range l.all() {
				s.state.remove(k, l, name)
			}
		}
	}
}

// answerTimeout handles a server that does not answer: it leaves the protocol, gives up optional
// names, or reports the others.
func (s *session) answerTimeout() error {
	if !s.responded && s.at.choice.probing() && s.wire.protocol() == Delta {
		return errSilent
	}
	if len(s.reordered) > 0 {
		return errMissing
	}
	unanswered, gaveUp := []string(nil), false
	for name, q := range s.subscriptions {
		switch {
		case q.answered || !q.required:
		case q.optional:
			q.required, gaveUp = false, true
			s.unanswered--
		default:
			unanswered = append(unanswered, name)
		}
	}
	if gaveUp {
		if err := s.deliverUnmarked(); err != nil {
			return err
		}
	}
	if len(unanswered) == 0 {
		return nil
	}
	slices.Sort(unanswered)
	s.client.change(func(st *Status) { st.Unanswered = unanswered })
	s.client.cfg.Log.Warn("the server leaves types unanswered; nothing that it sends is used before it has answered for all. "+
		"If it does not serve them, do not ask it for these kinds", "server", s.at.target, "types", strings.Join(unanswered, ","))
	return nil
}
