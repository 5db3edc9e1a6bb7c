package sts

import (
	"container/list"
	"sync"
	"time"
)

const (
	// A token that is told has this part of its life left, or so long: who gets one has to get somewhere with it.
	restPart = 5
	restMost = time.Minute
)

// cache remembers tokens, those that were used last.
type cache struct {
	size int

	mu    sync.Mutex
	used  *list.List // of *kept
	byKey map[string]*list.Element
}

type kept struct {
	key    string
	answer *answer
	until  time.Time
}

func newCache(size int) *cache {
	return &cache{size: size, used: list.New(), byKey: map[string]*list.Element{}}
}

func (c *cache) get(key string, now time.Time) *answer {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.byKey[key]
	if at == nil {
		return nil
	}
	k := at.Value.(*kept)
	if !now.Before(k.until) {
		c.remove(at)
		return nil
	}
	c.used.MoveToFront(at)
	return k.answer
}

// put remembers a token that says how long it counts. One that can be renewed is its owner's alone.
func (c *cache) put(key string, a *answer, now time.Time) {
	left := a.expires.Sub(now)
	if _, renewable := a.fields["refresh_token"]; renewable || a.expires.IsZero() || left <= 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := c.byKey[key]; at != nil {
		c.remove(at)
	}
	c.byKey[key] = c.used.PushFront(&kept{key, a, a.expires.Add(-min(left/restPart, restMost))})
	for c.used.Len() > c.size {
		c.remove(c.used.Back())
	}
}

func (c *cache) remove(at *list.Element) {
	delete(c.byKey, c.used.Remove(at).(*kept).key)
}

func (c *cache) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.used.Len()
}
