package terse

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// peerKeys are the attributes that name the peer that caused a line. The peer may have chosen that name itself.
var peerKeys = map[string]bool{"node": true, "client": true, "sink": true, "peer": true, "caller": true, "address": true, "identity": true}

func peerIn(a slog.Attr) string {
	if !peerKeys[a.Key] {
		return ""
	}
	return Kept(textOf(a.Value), mostOfPeer)
}

const mostOfPeer = 128

// How often the same complaint is logged. What is done, and not complained of, is logged each time.
var (
	ofPeer  = quota{rate.Every(6 * time.Second), 10} // of one peer
	ofPeers = quota{5, 100}                          // of all peers together
	ofNone  = quota{10, 1000}                        // that names no peer
)

const (
	// tellWithin is after how long it is told how many lines were left out.
	tellWithin = 10 * time.Second
	// mostPeers is how many peers are told apart: each may call itself a thousand things.
	mostPeers = 1000
	// mostLines is more than any program has.
	mostLines = 1000
)

type quota struct {
	rate  rate.Limit
	burst int
}

func (q quota) limiter() *rate.Limiter { return rate.NewLimiter(q.rate, q.burst) }

// repeats leaves out lines that are like many before them, and tells how many those were.
type repeats struct {
	to slog.Handler

	mu    sync.Mutex
	lines map[string]*line // by their message
}

// line is one that a program logs, with one message.
type line struct {
	all     *rate.Limiter
	peers   map[string]*rate.Limiter
	missing int            // lines that were left out and not told of
	of      map[string]int // them, by peer
}

func newRepeats(to slog.Handler) *repeats { return &repeats{to: to, lines: map[string]*line{}} }

// allow says whether a complaint is to be logged.
func (r *repeats) allow(record *slog.Record, peer string) bool {
	message := Kept(record.Message, mostOfText)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lines[message] == nil && len(r.lines) >= mostLines {
		message = "" // somebody makes messages up
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
		time.AfterFunc(tellWithin, func() { r.tell(message, level) })
	}
	l.count(peer)
	return false
}

func newLine(peer string) *line {
	if peer == "" {
		return &line{all: ofNone.limiter()}
	}
	return &line{all: ofPeers.limiter(), peers: map[string]*rate.Limiter{}}
}

func (l *line) allow(peer string) bool {
	if l.peers == nil || peer == "" {
		return l.all.Allow()
	}
	return l.ofOne(peer).Allow() && l.all.Allow()
}

// ofOne is the limiter of one peer. Those that are too many have one together.
func (l *line) ofOne(peer string) *rate.Limiter {
	if known := l.peers[peer]; known != nil {
		return known
	}
	if len(l.peers) >= mostPeers {
		l.forgetQuiet()
	}
	if len(l.peers) >= mostPeers {
		peer = ""
	}
	if l.peers[peer] == nil {
		l.peers[peer] = ofPeer.limiter()
	}
	return l.peers[peer]
}

// forgetQuiet forgets those that have said nothing for so long that they are as good as new.
func (l *line) forgetQuiet() {
	for peer, limiter := range l.peers {
		if limiter.Tokens() >= float64(ofPeer.burst) {
			delete(l.peers, peer)
		}
	}
}

func (l *line) count(peer string) {
	if l.of == nil {
		l.of = map[string]int{}
	}
	if _, known := l.of[peer]; known || len(l.of) < mostPeers {
		l.of[peer]++
	}
}

// tell logs how many lines were left out, and which peer caused most of them.
func (r *repeats) tell(message string, level slog.Level) {
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
	record.AddAttrs(slog.Int("not_logged", missing), slog.Duration("within", tellWithin))
	if most != "" {
		record.AddAttrs(slog.Int("peers", len(of)), slog.String("most_by", most))
	}
	_ = r.to.Handle(context.Background(), record) // there is nowhere else to say it
}
