package e2e

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"
)

// backend is an application behind the mesh. It answers with its name and the request.
type backend struct {
	name   string
	port   string
	behave func(w http.ResponseWriter, r *http.Request, before int) (answered bool)
	// asked counts the requests.
	asked atomic.Int64
	// last is the newest request.
	last atomic.Pointer[seen]
}

// seen is a request as it reached a backend.
type seen struct {
	Backend, Method, URI, Host string
	Header                     http.Header
}

// newBackend starts a backend on a loopback port. Behave may answer a request instead; it gets the
// number of earlier ones. It may be nil.
func newBackend(t testing.TB, name string, behave func(w http.ResponseWriter, r *http.Request, before int) (answered bool)) *backend {
	t.Helper()
	b := &backend{name: name, behave: behave}
	b.serve(t, listen(t))
	return b
}

// serveBackend starts a backend on a listener.
func serveBackend(t testing.TB, name string, l net.Listener) *backend {
	t.Helper()
	b := &backend{name: name}
	b.serve(t, l)
	return b
}

func (b *backend) serve(t testing.TB, l net.Listener) {
	t.Helper()
	b.port = portOf(t, l)
	server := httptest.NewUnstartedServer(b)
	server.Listener.Close()
	server.Listener = l
	server.Start()
	t.Cleanup(server.Close)
}

// ServeHTTP answers one request.
func (b *backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	before := b.asked.Add(1) - 1
	request := &seen{b.name, r.Method, r.RequestURI, r.Host, r.Header}
	b.last.Store(request)
	if b.behave != nil && b.behave(w, r, int(before)) {
		return
	}
	w.Header().Set("Backend", b.name)
	w.Header().Set("Secret", "of "+b.name)
	if err := json.NewEncoder(w).Encode(request); err != nil {
		return // the client has gone, and reports it
	}
}

func backends(t testing.TB, names ...string) []*backend {
	t.Helper()
	list := make([]*backend, len(names))
	for i, name := range names {
		list[i] = newBackend(t, name, nil)
	}
	return list
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	return listenOn(t, "127.0.0.1")
}

func listenOn(t testing.TB, ip string) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(ip, "0"))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func portOf(t testing.TB, l net.Listener) string {
	t.Helper()
	address, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		t.Fatalf("%s has no port", l.Addr())
	}
	return strconv.Itoa(address.Port)
}
