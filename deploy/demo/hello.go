package main

import (
	"fmt"
	"net"
	"net/http"
	"time"
)

// hello is one version of the demo's service.
type hello struct{ server *http.Server }

func startHello(version string, port int) (*hello, error) {
	listener, err := net.Listen("tcp", local(port))
	if err != nil {
		return nil, fmt.Errorf("start the service, version %s: %w", version, err)
	}
	answer := func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, greeting(version)) }
	h := &hello{&http.Server{Handler: http.HandlerFunc(answer), ReadHeaderTimeout: 5 * time.Second}}
	go func() { _ = h.server.Serve(listener) }() // returns ErrServerClosed after stop
	return h, nil
}

func (h *hello) stop() { h.server.Close() }

func greeting(version string) string { return "hello from " + version }
