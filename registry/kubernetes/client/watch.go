package client

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/pgmesh/pgmesh/registry/kubernetes/wire"
)

const (
	// watchFor is how long a watch is asked for. Half as much again is drawn, so that watches that
	// began together do not end together.
	watchFor = 5 * time.Minute
	// quietFor is how long nothing may come of a watch. The server sends a bookmark each minute.
	quietFor = 3 * time.Minute
)

// Event is a change of a list. Its object is JSON, or the message of protobuf.
type Event struct {
	Type    string          `json:"type"`
	Object  json.RawMessage `json:"object"`
	Message []byte          `json:"-"`

	sent []byte // the message with its kind
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
// minutes. Compact says that objects may be protobuf.
func (c *Client) Watch(ctx context.Context, path, version string, compact bool, begun func(), event func(Event) error) error {
	seconds := int((watchFor + rand.N(watchFor/2)).Seconds())
	a, err := c.ask(ctx, question{method: http.MethodGet, path: path, compact: compact, query: url.Values{
		"watch": {"true"}, "resourceVersion": {version}, "allowWatchBookmarks": {"true"}, "timeoutSeconds": {strconv.Itoa(seconds)},
	}})
	if err != nil {
		return err
	}
	defer a.Close()
	a.wait(quietFor)
	begun()
	for next := a.events(); ; {
		e, err := next()
		switch {
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

// events returns a function that reads the next event; its error is io.EOF where a watch ends.
func (a *answer) events() func() (Event, error) {
	if a.compact {
		return compactEvents(a)
	}
	body := &bounded{from: a}
	decoder := json.NewDecoder(body)
	return func() (e Event, err error) {
		body.left = largest
		return e, decoder.Decode(&e)
	}
}

// compactEvents reads events of protobuf, each of which has its length before it.
func compactEvents(from io.Reader) func() (Event, error) {
	from = bufio.NewReader(from)
	return func() (e Event, err error) {
		var length [4]byte
		if _, err := io.ReadFull(from, length[:]); err != nil {
			return e, err
		}
		size := binary.BigEndian.Uint32(length[:])
		if size > largest {
			return e, &Garbage{errLarge}
		}
		frame := make([]byte, size)
		if _, err := io.ReadFull(from, frame); err != nil {
			return e, fmt.Errorf("an event breaks off: %w", io.ErrUnexpectedEOF)
		}
		return compactEvent(frame)
	}
}

func compactEvent(frame []byte) (e Event, err error) {
	m := wire.Read(frame)
	for m.Next() {
		switch m.Field() {
		case 1:
			e.Type = m.Text()
		case 2:
			m.Within(func(in *wire.Message) {
				if in.Field() == 1 {
					e.sent = in.Bytes()
				}
			})
		}
	}
	if m.Err() != nil {
		return e, &Garbage{m.Err()}
	}
	if _, e.Message, err = wire.Object(e.sent); err != nil {
		return e, &Garbage{err}
	}
	return e, nil
}

func (e Event) pass(event func(Event) error) error {
	switch e.Type {
	case Added, Modified, Deleted, Bookmark:
		return event(e)
	case failure:
		s, is := statusOf(e.Object, false)
		if e.sent != nil {
			s, is = statusOf(e.sent, true)
		}
		if !is {
			return &Garbage{errors.New("an event of an error has no status")}
		}
		return refused(s.Code, fmt.Sprintf("%d %s", s.Code, http.StatusText(s.Code)), s.Message)
	default:
		return &Garbage{fmt.Errorf("there is no event of the type %q", e.Type)}
	}
}
