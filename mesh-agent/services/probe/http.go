package probe

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
)

// defaultHost is the host of a probe that names none.
const defaultHost = "localhost"

const (
	maxRedirects = 10 // as with Kubernetes
	// maxBody is how much of an answer is read, so that its connection closes cleanly.
	maxBody = 10 << 10
)

func at(host string, port uint32) string {
	return net.JoinHostPort(cmp.Or(host, defaultHost), strconv.FormatUint(uint64(port), 10))
}

// What describes a probe.
func What(p *machinev1.Probe) string {
	switch how := p.GetHow().(type) {
	case *machinev1.Probe_Http:
		return "GET " + target(how.Http).String()
	case *machinev1.Probe_Tcp:
		return "connect to " + at(how.Tcp.GetHost(), how.Tcp.GetPort())
	case *machinev1.Probe_Grpc:
		return strings.TrimSpace("health check of " + at("", how.Grpc.GetPort()) + " " + how.Grpc.GetService())
	case *machinev1.Probe_Exec:
		return strings.Join(how.Exec.GetCommand(), " ")
	default:
		return "nothing"
	}
}

func target(p *machinev1.HTTPProbe) *url.URL {
	path, query, _ := strings.Cut(p.GetPath(), "?")
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	return &url.URL{Scheme: strings.ToLower(cmp.Or(p.GetScheme(), "http")), Host: at(p.GetHost(), p.GetPort()), Path: path, RawQuery: query}
}

// askHTTP accepts every status below 400. Certificates are not verified: the target is this
// machine, and it is sent no secrets.
func askHTTP(ctx context.Context, p *machinev1.HTTPProbe) error {
	to := target(p)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, to.String(), http.NoBody)
	if err != nil {
		return fmt.Errorf("GET %s: %w", to, err)
	}
	request.Header.Set("User-Agent", "mesh-agent-probe")
	request.Header.Set("Accept", "*/*")
	for _, h := range p.GetHeaders() {
		if strings.EqualFold(h.GetName(), "host") {
			request.Host = h.GetValue()
			continue
		}
		request.Header.Set(h.GetName(), h.GetValue())
	}
	transport := &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // as in Kubernetes
	}
	defer transport.CloseIdleConnections()
	client := http.Client{Transport: transport, CheckRedirect: onTheSameHost}
	answer, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("GET %s: %w", to, withoutURL(err))
	}
	defer answer.Body.Close()
	_, _ = io.CopyN(io.Discard, answer.Body, maxBody)
	if answer.StatusCode < http.StatusOK || answer.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("GET %s: %s", to, answer.Status)
	}
	return nil
}

// onTheSameHost follows redirects on this machine. One to another host counts as success.
func onTheSameHost(next *http.Request, before []*http.Request) error {
	switch {
	case next.URL.Hostname() != before[0].URL.Hostname():
		return http.ErrUseLastResponse
	case len(before) >= maxRedirects:
		return fmt.Errorf("it redirects more than %d times", maxRedirects)
	default:
		return nil
	}
}

// withoutURL removes the URL from an error, as the message has it already.
func withoutURL(err error) error {
	if inner, ok := errors.AsType[*url.Error](err); ok {
		err = inner.Err
	}
	return withoutAddresses(err)
}

// withoutAddresses removes the addresses from a dial error.
func withoutAddresses(err error) error {
	if inner, ok := errors.AsType[*net.OpError](err); ok && inner.Op == "dial" {
		return inner.Err
	}
	return err
}

func connect(ctx context.Context, p *machinev1.TCPProbe) error {
	to := at(p.GetHost(), p.GetPort())
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", to)
	if err != nil {
		return fmt.Errorf("%s: %w", to, withoutAddresses(err))
	}
	return conn.Close()
}
