package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

const (
	// watchFor is how long a watch is asked for. Half as much again is drawn, so that watches that
	// began together do not end together.
	watchFor = 5 * time.Minute
	// quietFor is how long nothing may come of a watch. The server sends a bookmark each minute.
	quietFor = 3 * time.Minute
)

// Event is a change of a list.
type Event struct {
	Type   string          `json:"type"`
	Object json.RawMessage `json:"object"`
}

// The types of events.
const (
	Added    = "ADDED"
	Modified = "MODIFIED"
	Deleted  = "DELETED"
	Bookmark = "BOOKMARK" // the object has nothing but the version that was reached
	failure  = "ERROR"
)

// Watch gives each change after a version to a function. It calls begun when the server has said that
// it will tell of them, and returns nil when the server ends the watch, which it does after some
// minutes.
func (c *Client) Watch(ctx context.Context, path, version string, begun func(), event func(Event) error) error {
	seconds := int((watchFor + rand.N(watchFor/2)).Seconds())
	a, err := c.get(ctx, path, url.Values{
		"watch": {"true"}, "resourceVersion": {version}, "allowWatchBookmarks": {"true"}, "timeoutSeconds": {strconv.Itoa(seconds)},
	})
	if err != nil {
		return err
	}
	defer a.Close()
	a.wait(quietFor)
	begun()
	body := &bounded{from: a, left: largest}
	for decoder := json.NewDecoder(body); ; {
		body.left = largest
		var e Event
		switch err := decoder.Decode(&e); {
		case errors.Is(err, io.EOF) || a.silent.Load():
			return nil
		case err != nil:
			return c.broken(a, err)
		}
		if err := e.pass(event); err != nil {
			return err
		}
	}
}

func (e Event) pass(event func(Event) error) error {
	switch e.Type {
	case Added, Modified, Deleted, Bookmark:
		return event(e)
	case failure:
		var s status
		if err := json.Unmarshal(e.Object, &s); err != nil {
			return &Garbage{err}
		}
		return refused(s.Code, fmt.Sprintf("%d %s", s.Code, http.StatusText(s.Code)), s.Message)
	default:
		return &Garbage{fmt.Errorf("there is no event of the type %q", e.Type)}
	}
}
