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

// bodyWithin is how long the body of a request may take to come, if nothing else is said: a call waits for all of it.
const bodyWithin = time.Minute

// timely has the body of a request come in time. A call that has been read may take as long as it likes.
func timely(w http.ResponseWriter, r *http.Request, within time.Duration) {
	if r.ContentLength == 0 {
		return
	}
	connection := http.NewResponseController(w)
	if err := connection.SetReadDeadline(time.Now().Add(within)); err != nil {
		return // it is no connection: a test's
	}
	r.Body = &timedBody{ReadCloser: r.Body, within: within, read: sync.OnceFunc(func() { _ = connection.SetReadDeadline(time.Time{}) })}
}

type timedBody struct {
	io.ReadCloser

	within time.Duration
	read   func() // is called when all is there
}

func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return n, fmt.Errorf("the body has not come within %s: import it by mcp-client, which sends it in portions", b.within)
	}
	if err != nil {
		b.read()
	}
	return n, err
}
