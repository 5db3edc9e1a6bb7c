package attack

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/identity"
	"github.com/pgmesh/pgmesh/internal/kit/freeport"
	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
	"github.com/pgmesh/pgmesh/internal/testbench/stack"
)

// counted is a mesh whose authority the test holds, with a machine that counts who calls it.
type counted struct {
	*mesh

	root   *certtest.Authority
	server *stack.Program
	at     string // where it is called
}

func newCounted(t *testing.T) *counted {
	t.Helper()
	root := certtest.NewAuthority(t)
	cert, key := root.Write(t, t.TempDir())
	m := meshOf(t, stack.Files{Cert: cert, Key: key, Roots: cert}, func(*stack.Stack) {})
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		code, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
		w.WriteHeader(max(code, http.StatusOK))
	}))
	t.Cleanup(app.Close)
	at, err := freeport.Address()
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(at)
	require.NoError(t, err)
	m.sql(`INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES ('Telemetry', 'istio-system', 'mesh', '{"metrics": [{"providers": [{"name": "prometheus"}]}]}')`)
	m.sql(`INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES ('Sidecar', 'shop', 'server', $1)`, fmt.Sprintf(
		`{"egress": [{"hosts": ["~/*"]}], "ingress": [{"port": {"number": %s, "name": "http", "protocol": "HTTP"}, "bind": "127.0.0.1", "defaultEndpoint": %q}]}`,
		port, strings.TrimPrefix(app.URL, "http://")))
	return &counted{m, root, m.member("shop/server", "server", "--labels", "app=server,version=v1", "--scrape-timeout", "1m"), at}
}

// caller calls the machine with a certificate of an account that has an alias.
func (c *counted) caller(account, alias string) *http.Client {
	c.t.Helper()
	id := "spiffe://cluster.local/ns/bank/sa/" + account
	pair := c.root.Issue(func(cert *x509.Certificate) {
		names, err := identity.WithAlias(cert.URIs[0], alias, false)
		require.NoError(c.t, err)
		cert.ExtraExtensions = []pkix.Extension{names}
	}, id)
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"istio-http/1.1"}, Certificates: []tls.Certificate{pair.Certificate(c.t)}, InsecureSkipVerify: true,
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		return (&tls.Dialer{Config: config}).DialContext(ctx, network, address)
	}}
	return &http.Client{Transport: transport}
}

// asks sends a request that is answered with a code.
func (c *counted) asks(client *http.Client, code int) error {
	request, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, fmt.Sprintf("http://%s/%d", c.at, code), nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != code {
		return fmt.Errorf("answered %d, want %d", response.StatusCode, code)
	}
	_, err = io.Copy(io.Discard, response.Body)
	return err
}

// tally is what the machine's page has of each caller, by metric and workload; and how many series
// each metric has. Of histograms it has how many values they have.
type tally struct {
	of     map[string]map[string]int
	series map[string]int
}

// metrics reads the page, which may have some hundred MiB without a filter, and may be cut off on a busy machine.
func (c *counted) metrics(ctx context.Context, filter string) (tally, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+c.server.HTTP()+"/stats/prometheus?filter="+url.QueryEscape(filter), nil)
	if err != nil {
		return tally{}, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return tally{}, err
	}
	defer response.Body.Close()
	out := tally{map[string]map[string]int{}, map[string]int{}}
	lines := bufio.NewReaderSize(response.Body, 1<<20)
	for {
		line, err := lines.ReadSlice('\n')
		if errors.Is(err, io.EOF) {
			if out.of["pgmesh_mesh_agent_scrape_up"][""] != 1 {
				return tally{}, errors.New("Envoy did not tell its metrics in time")
			}
			return out, nil
		}
		if err != nil {
			return tally{}, err
		}
		out.add(line)
	}
}

// counts waits until the machine has counted this of a workload: Envoy shows histograms late.
func (c *counted) counts(metric, workload string, want int) {
	c.t.Helper()
	poll.Eventually(c.t, func(ctx context.Context) error {
		page, err := c.metrics(ctx, strings.TrimPrefix(metric, "istio_")+".*"+workload)
		if got := page.of[metric][workload]; err == nil && got != want {
			err = fmt.Errorf("of %s it has %v, want %v", workload, got, want)
		}
		return err
	})
}

// full waits until the machine shows as many histograms as it may have, and returns everything then. A
// busy machine takes many seconds for a page, and Envoy some between two states of it.
func (c *counted) full() (page tally) {
	c.t.Helper()
	poll.Within(c.t, 2*time.Minute, func(ctx context.Context) (err error) {
		if page, err = c.metrics(ctx, ""); err != nil {
			return err
		}
		shown := page.series["istio_request_duration_milliseconds"] + page.series["istio_request_bytes"] + page.series["istio_response_bytes"]
		if shown != mostHistograms {
			return fmt.Errorf("it shows %d histograms, want %d", shown, mostHistograms)
		}
		return nil
	})
	return page
}

var sample = regexp.MustCompile(`^([a-z_]+)\{(?:.*source_workload="([^"]*)")?.*\} ([0-9.]+)\n$`)

func (a tally) add(line []byte) {
	name, _, _ := bytes.Cut(line, []byte("{"))
	if bytes.HasSuffix(name, []byte("_bucket")) {
		return
	}
	found := sample.FindSubmatch(line)
	if found == nil {
		return
	}
	value, _ := strconv.Atoi(string(found[3])) // the counts are; the sums are not looked at
	metric := strings.TrimSuffix(string(found[1]), "_count")
	if a.of[metric] == nil {
		a.of[metric] = map[string]int{}
	}
	a.of[metric][string(found[2])] += value
	a.series[metric]++
}

// The most series of a proxy, as docs/standard-metrics.md has it.
const mostHistograms = 15_000

// Some thousand clients, each of which is somebody else, are more than a machine counts. It counts
// as many as it may, says so, and those that it knows already are counted as before.
func TestMoreClientsThanAMachineCounts(t *testing.T) {
	t.Parallel()
	c := newCounted(t)
	check := keepsBelow(t, memory{c.server, 300})
	web := c.caller("web", "bank;web;v1;web;v1;")
	for range 5 {
		require.NoError(t, c.asks(web, http.StatusOK))
	}
	const callers = 1100
	codes := []int{http.StatusOK, http.StatusCreated, http.StatusNotFound, http.StatusTooManyRequests, http.StatusServiceUnavailable}
	c.flood(callers, codes)
	for range 5 {
		require.NoError(t, c.asks(web, http.StatusOK))
	}
	require.NoError(t, c.asks(c.caller("late", ""), http.StatusOK))

	c.counts("istio_request_bytes", "web", 10)
	page := c.full()
	require.Equal(t, 10, page.of["istio_request_bytes"]["web"])
	requests := page.of["istio_requests_total"]
	require.Equal(t, 10, requests["web"])
	require.Equal(t, 1, requests["late"], "there is room for more counters")
	for i := range callers {
		require.Equal(t, len(codes), requests[fmt.Sprint("caller-", i)])
	}
	require.GreaterOrEqual(t, page.of["envoy_server_stats_overflow_histogram"][""], 3*(callers*len(codes)+2)-mostHistograms)
	require.Equal(t, 1, strings.Count(c.server.Log(), "Envoy has as many series of the standard metrics as it may have"))
	check()
}

// flood has many callers ask for each code once.
func (c *counted) flood(callers int, codes []int) {
	c.t.Helper()
	var all sync.WaitGroup
	next, failed := make(chan int), make(chan error, callers)
	for range 4 {
		all.Go(func() {
			for i := range next {
				client := c.caller(fmt.Sprint("caller-", i), "")
				for _, code := range codes {
					if err := c.asks(client, code); err != nil {
						failed <- err
						break
					}
				}
				client.CloseIdleConnections()
			}
		})
	}
	for i := range callers {
		next <- i
	}
	close(next)
	all.Wait()
	close(failed)
	require.NoError(c.t, <-failed)
}
