package interop

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pgmesh/pgmesh/internal/testbench/netns"
)

// heard is a request as an application behind an Envoy saw it.
type heard struct {
	Application, Caller string
}

// serveApplication answers on port 8080 of a machine, and says who has asked.
func serveApplication(t *testing.T, at *netns.Namespace, name string) {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode(heard{name, r.Header.Get("X-Forwarded-Client-Cert")}) // the client has gone, and reports it
	}))
	server.Listener.Close()
	server.Listener = at.Listen("tcp", "0.0.0.0:8080")
	server.Start()
	t.Cleanup(server.Close)
}

// call is what somebody asks for again and again.
type call struct {
	from    *netns.Namespace
	address string // of the Service
	host    string
	caller  string // the identity that the other side has to see
}

// said is what somebody who asks is told.
type said struct {
	status int
	by     string // who answered
	rule   string // what the VirtualService adds
	caller string // whom the other side has seen
}

// send asks once.
func (c *call) send(ctx context.Context) (*said, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.address+"/", http.NoBody)
	if err != nil {
		return nil, err
	}
	request.Host = c.host
	response, err := clientIn(c.from).Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer := &said{status: response.StatusCode, rule: response.Header.Get("X-Rule")}
	if answer.status != http.StatusOK {
		return answer, nil
	}
	var was heard
	err = json.NewDecoder(response.Body).Decode(&was)
	answer.by, answer.caller = was.Application, was.Caller
	return answer, err
}

// once asks once, and returns who answered. The other side has to have seen the identity of the caller.
func (c *call) once(ctx context.Context) (by string, err error) {
	answer, err := c.send(ctx)
	switch {
	case err != nil:
		return "", err
	case answer.status != http.StatusOK:
		return "", fmt.Errorf("%s answers %d", c.host, answer.status)
	case !strings.Contains(answer.caller, "URI="+c.caller):
		return "", fmt.Errorf("%s was asked by %q, not %s", c.host, answer.caller, c.caller)
	}
	return answer.by, nil
}

// traffic is a call that goes on until the test ends.
type traffic struct {
	call

	name string
	end  context.CancelFunc
	done chan struct{}

	mu       sync.Mutex
	resting  bool
	answered map[string]int // by who did
	failures []error
}

// pause is how long a client waits between two requests.
const pause = 5 * time.Millisecond

// keepAsking begins the traffic of a client.
func keepAsking(t *testing.T, name string, c call) *traffic {
	t.Helper()
	ctx, end := context.WithCancel(context.WithoutCancel(t.Context()))
	f := &traffic{call: c, name: name, end: end, done: make(chan struct{}), answered: map[string]int{}}
	go f.run(ctx)
	t.Cleanup(f.stop)
	return f
}

func (f *traffic) stop() {
	f.end()
	<-f.done
}

func (f *traffic) run(ctx context.Context) {
	defer close(f.done)
	for tick := time.NewTicker(pause); ; {
		select {
		case <-tick.C:
			f.ask(ctx)
		case <-ctx.Done():
			tick.Stop()
			return
		}
	}
}

func (f *traffic) ask(ctx context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.resting {
		return
	}
	by, err := f.once(ctx)
	switch {
	case err == nil:
		f.answered[by]++
	case ctx.Err() == nil:
		f.failures = append(f.failures, fmt.Errorf("%s: %w", time.Now().Format(time.TimeOnly), err))
	}
}

// rest has the client ask nothing, from after its last answer.
func (f *traffic) rest(on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.resting = on
}

// told returns what has happened since it was asked last.
func (f *traffic) told() (answered map[string]int, failures []error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	answered, failures = f.answered, f.failures
	f.answered, f.failures = map[string]int{}, nil
	return answered, failures
}
