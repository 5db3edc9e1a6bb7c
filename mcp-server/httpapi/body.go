package httpapi

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"
)

// defaultBodyTimeout is the default for how long a body may take to arrive: a call starts once all
// of it is read.
const defaultBodyTimeout = time.Minute

// limitBodyTime bounds how long the body may take to arrive. The call itself may take as long as it
// likes.
func limitBodyTime(w http.ResponseWriter, r *http.Request, within time.Duration) {
	if r.ContentLength == 0 {
		return
	}
	connection := http.NewResponseController(w)
	if err := connection.SetReadDeadline(time.Now().Add(within)); err != nil {
		return // not a connection, as in some tests
	}
	r.Body = &timedBody{ReadCloser: r.Body, timeout: within, done: sync.OnceFunc(func() { _ = connection.SetReadDeadline(time.Time{}) })}
}

type timedBody struct {
	io.ReadCloser

	timeout time.Duration
	done    func() // lifts the deadline once the body is read
}

func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return n, fmt.Errorf("the body has not come within %s: import it by mcp-client, which sends it in portions", b.timeout)
	}
	if err != nil {
		b.done()
	}
	return n, err
}
