package terse

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// peerKeys are the attributes that name the peer that caused a line. A peer may choose that name
// itself.
var peerKeys = map[string]bool{"node": true, "client": true, "proxy": true, "sink": true, "peer": true, "caller": true, "address": true, "identity": true}

func peerIn(a slog.Attr) string {
	if !peerKeys[a.Key] {
		return ""
	}
	return Kept(textOf(a.Value), maxPeerName)
}

const maxPeerName = 128

// How often the same warning is logged.
var (
	peerQuota     = quota{rate.Every(6 * time.Second), 10} // for one peer
	allPeersQuota = quota{5, 100}                          // for all peers together
	noPeerQuota   = quota{10, 1000}                        // for lines that name no peer
)

const (
	// summaryDelay is how long after the first dropped line the number of dropped lines is logged.
	summaryDelay = 10 * time.Second
	// maxPeers bounds how many peers are counted separately, because a peer may use a thousand
	// names.
	maxPeers = 1000
	// maxLines is more than the messages of any program.
	maxLines = 1000
)

type quota struct {
	rate  rate.Limit
	burst int
}

func (q quota) limiter() *rate.Limiter { return rate.NewLimiter(q.rate, q.burst) }

// repeats drops lines that repeat too often, and logs how many it dropped.
type repeats struct {
	to slog.Handler

	mu    sync.Mutex
	lines map[string]*line // by message
}

// line is the state of all lines with one message.
type line struct {
	all     *rate.Limiter
	peers   map[string]*rate.Limiter
	missing int            // dropped lines since the last summary
	of      map[string]int // dropped lines by peer
}

func newRepeats(to slog.Handler) *repeats { return &repeats{to: to, lines: map[string]*line{}} }

// allow reports whether to log a warning.
func (r *repeats) allow(record *slog.Record, peer string) bool {
	message := Kept(record.Message, maxText)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lines[message] == nil && len(r.lines) >= maxLines {
		message = "" // messages contain variable text: count them together
	}
	l := r.lines[message]
	if l == nil {
		l = newLine(peer)
		r.lines[message] = l
	}
	if l.allow(peer) {
		return true
	}
	if l.missing++; l.missing == 1 {
		level := record.Level
		time.AfterFunc(summaryDelay, func() { r.logSummary(message, level) })
	}
	l.count(peer)
	return false
}

func newLine(peer string) *line {
	if peer == "" {
		return &line{all: noPeerQuota.limiter()}
	}
	return &line{all: allPeersQuota.limiter(), peers: map[string]*rate.Limiter{}}
}

func (l *line) allow(peer string) bool {
	if l.peers == nil || peer == "" {
		return l.all.Allow()
	}
	return l.ofOne(peer).Allow() && l.all.Allow()
}

// ofOne returns the limiter of a peer. Peers beyond maxPeers share one.
func (l *line) ofOne(peer string) *rate.Limiter {
	if known := l.peers[peer]; known != nil {
		return known
	}
	if len(l.peers) >= maxPeers {
		l.forgetQuiet()
	}
	if len(l.peers) >= maxPeers {
		peer = ""
	}
	if l.peers[peer] == nil {
		l.peers[peer] = peerQuota.limiter()
	}
	return l.peers[peer]
}

// forgetQuiet forgets peers whose limiters are full again.
func (l *line) forgetQuiet() {
	for peer, limiter := range l.peers {
		if limiter.Tokens() >= float64(peerQuota.burst) {
			delete(l.peers, peer)
		}
	}
}

func (l *line) count(peer string) {
	if l.of == nil {
		l.of = map[string]int{}
	}
	if _, known := l.of[peer]; known || len(l.of) < maxPeers {
		l.of[peer]++
	}
}

// logSummary logs how many lines were dropped, and which peer caused most of them.
func (r *repeats) logSummary(message string, level slog.Level) {
	r.mu.Lock()
	l := r.lines[message]
	missing, of := l.missing, l.of
	l.missing, l.of = 0, nil
	r.mu.Unlock()
	most := ""
	for peer, n := range of {
		if n > of[most] || most == "" {
			most = peer
		}
	}
	record := slog.NewRecord(time.Now(), level, message, 0)
	record.AddAttrs(slog.Int("not_logged", missing), slog.Duration("within", summaryDelay))
	if most != "" {
		record.AddAttrs(slog.Int("peers", len(of)), slog.String("most_by", most))
	}
	_ = r.to.Handle(context.Background(), record) // a failing log cannot be reported anywhere
}
