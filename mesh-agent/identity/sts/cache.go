package sts

import (
	"container/list"
	"sync"
	"time"
)

const (
	// A cached token is served while this fraction (1/5) of its lifetime remains, or a minute: its
	// recipient needs time to use it.
	marginFraction = 5
	maxMargin      = time.Minute
)

// cache is an LRU cache of tokens.
type cache struct {
	size int

	mu    sync.Mutex
	lru   *list.List // of *cacheItem, the most recently used first
	byKey map[string]*list.Element
}

type cacheItem struct {
	key    string
	answer *answer
	until  time.Time
}

func newCache(size int) *cache {
	return &cache{size: size, lru: list.New(), byKey: map[string]*list.Element{}}
}

func (c *cache) get(key string, now time.Time) *answer {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.byKey[key]
	if at == nil {
		return nil
	}
	k := at.Value.(*cacheItem)
	if !now.Before(k.until) {
		c.remove(at)
		return nil
	}
	c.lru.MoveToFront(at)
	return k.answer
}

// put caches a token with a known lifetime. One with a refresh token belongs to its requester
// alone, and is not cached.
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
	c.byKey[key] = c.lru.PushFront(&cacheItem{key, a, a.expires.Add(-min(left/marginFraction, maxMargin))})
	for c.lru.Len() > c.size {
		c.remove(c.lru.Back())
	}
}

func (c *cache) remove(at *list.Element) {
	delete(c.byKey, c.lru.Remove(at).(*cacheItem).key)
}

func (c *cache) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lru.Len()
}
