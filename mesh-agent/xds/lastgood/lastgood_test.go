package lastgood_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pgmesh/pgmesh/mesh-agent/xds/lastgood"
	"github.com/pgmesh/pgmesh/mesh-agent/xds/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	clusters  = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	endpoints = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
	hosts     = "type.googleapis.com/envoy.config.route.v3.VirtualHost"
)

func open(t testing.TB, folder string, change ...func(*lastgood.Options)) *lastgood.Store {
	t.Helper()
	o := lastgood.Options{Folder: folder, Owner: "me"}
	for _, c := range change {
		c(&o)
	}
	s, err := lastgood.Open(o)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

// resource makes a resource that contains its own name and version.
func resource(t testing.TB, name, version string) wire.Resource {
	t.Helper()
	packed, err := anypb.New(&clusterv3.Cluster{Name: name, AltStatName: version})
	require.NoError(t, err)
	body, err := proto.Marshal(packed)
	require.NoError(t, err)
	return wire.Resource{Name: name, Version: version, Body: body}
}

// talk is the stream of an Envoy.
type talk struct {
	*lastgood.Stream

	t     testing.TB
	nonce int
}

func begin(t testing.TB, s *lastgood.Store, form wire.Form) *talk { //nolint:thelper // it is one
	return &talk{s.Stream(form), t, 0}
}

func (k *talk) ask(typeURL string, r wire.Request) {
	r.TypeURL = typeURL
	k.OnRequest(&r)
}

// offer sends resources written as "name=version", and removals as "-name".
func (k *talk) offer(typeURL string, texts ...string) (nonce string) {
	k.t.Helper()
	k.nonce++
	r := &wire.Response{TypeURL: typeURL, Nonce: fmt.Sprint(k.nonce), Version: fmt.Sprint("v", k.nonce)}
	for _, text := range texts {
		if name, gone := strings.CutPrefix(text, "-"); gone {
			r.Removed = append(r.Removed, name)
			continue
		}
		name, version, _ := strings.Cut(text, "=")
		r.Resources = append(r.Resources, resource(k.t, name, version))
	}
	k.OnResponse(r)
	return r.Nonce
}

func (k *talk) accept(typeURL, nonce string) { k.ask(typeURL, wire.Request{Nonce: nonce}) }

func (k *talk) refuse(typeURL, nonce string) {
	k.ask(typeURL, wire.Request{Nonce: nonce, Refused: true, Reason: "no"})
}

// holds returns all resources of a type as "name=version", read from their content.
func holds(t testing.TB, s *lastgood.Store, typeURL string) map[string]string {
	t.Helper()
	out := map[string]string{}
	all, _ := s.All(typeURL)
	for _, r := range all {
		packed, c := &anypb.Any{}, &clusterv3.Cluster{}
		require.NoError(t, proto.Unmarshal(r.Body, packed))
		require.NoError(t, packed.UnmarshalTo(c))
		require.Equal(t, r.Name, c.GetName())
		out[c.GetName()] = c.GetAltStatName()
	}
	return out
}

func TestAcceptedResourcesPersist(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	s := open(t, folder)
	k := begin(t, s, wire.Delta)
	k.ask(clusters, wire.Request{})
	k.accept(clusters, k.offer(clusters, "a=1", "b=1", "c=1"))
	k.refuse(clusters, k.offer(clusters, "a=2", "d=1"))
	k.offer(clusters, "b=9") // never answered
	k.accept(clusters, k.offer(clusters, "b=2", "-c"))
	k.ask(endpoints, wire.Request{Subscribe: []string{"a", "b"}})
	k.accept(endpoints, k.offer(endpoints, "a=1", "b=1"))
	k.ask(endpoints, wire.Request{Unsubscribe: []string{"a"}})
	want := map[string]string{"a": "1", "b": "2"}
	require.Equal(t, want, holds(t, s, clusters))
	require.Equal(t, map[string]int{"clusters": 2, "endpoints": 1}, s.Summary().Resources)
	k.Close()
	s.Close()

	s = open(t, folder)
	require.Equal(t, want, holds(t, s, clusters))
	require.Equal(t, map[string]string{"b": "1"}, holds(t, s, endpoints))
	require.Equal(t, map[string]string{"a": "1", "b": "2"}, s.Versions(clusters))
	_, version := s.All(clusters)
	require.Equal(t, "v4", version)
	require.False(t, s.Summary().At.IsZero())

	// A fresh Envoy replaces what an earlier one had.
	k = begin(t, s, wire.Delta)
	k.ask(clusters, wire.Request{})
	k.accept(clusters, k.offer(clusters, "b=2", "e=1"))
	require.Equal(t, map[string]string{"b": "2", "e": "1"}, holds(t, s, clusters))

	// A returning Envoy says what it has.
	k = begin(t, s, wire.Delta)
	k.OnRequest(parsed(t, clusters, nil, map[string]string{"b": "2"}))
	k.OnRequest(parsed(t, endpoints, []string{"x"}, map[string]string{"x": "1"}))
	require.Equal(t, map[string]string{"b": "2"}, holds(t, s, clusters))
	require.Empty(t, holds(t, s, endpoints))
}

func parsed(t *testing.T, typeURL string, subscribe []string, held map[string]string) *wire.Request {
	t.Helper()
	r, err := wire.ParseRequest(wire.Delta, (&wire.Request{TypeURL: typeURL, Subscribe: subscribe}).Encode(wire.Delta, held))
	require.NoError(t, err)
	return r
}

func TestSotWWritesOnlyChanges(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	s := open(t, folder)
	k := begin(t, s, wire.SotW)
	k.ask(clusters, wire.Request{})
	var all []string
	for i := range 200 {
		all = append(all, fmt.Sprintf("c%d=1", i))
	}
	k.accept(clusters, k.offerUnversioned(clusters, all...))
	first := size(t, folder)
	all[7] = "c7=2"
	k.accept(clusters, k.offerUnversioned(clusters, all[:199]...))
	require.Less(t, size(t, folder)-first, first/20, "one of 200 was written")
	have := holds(t, s, clusters)
	require.Len(t, have, 199)
	require.Equal(t, "2", have["c7"])

	k.ask(endpoints, wire.Request{Names: []string{"c0", "c1"}})
	k.accept(endpoints, k.offerUnversioned(endpoints, "c0=1", "c1=1"))
	k.accept(endpoints, k.offerUnversioned(endpoints, "c0=2")) // the others are unchanged
	require.Equal(t, map[string]string{"c0": "2", "c1": "1"}, holds(t, s, endpoints))
	k.ask(endpoints, wire.Request{Names: []string{"c1"}})
	require.Equal(t, map[string]string{"c1": "1"}, holds(t, s, endpoints))
	s.Close()
	require.Len(t, holds(t, open(t, folder), clusters), 199)
}

// offerUnversioned is offer for SotW, whose resources have no versions.
func (k *talk) offerUnversioned(typeURL string, texts ...string) (nonce string) {
	k.t.Helper()
	k.nonce++
	r := &wire.Response{TypeURL: typeURL, Nonce: fmt.Sprint(k.nonce), Version: fmt.Sprint("v", k.nonce)}
	for _, text := range texts {
		name, version, _ := strings.Cut(text, "=")
		one := resource(k.t, name, version)
		one.Version = ""
		r.Resources = append(r.Resources, one)
	}
	k.OnResponse(r)
	return r.Nonce
}

func size(t testing.TB, folder string) (sum int64) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	for _, e := range entries {
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) { // just compacted away
			continue
		}
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
		sum += info.Size()
	}
	return sum
}

// crashed copies a folder, as a crash would leave it.
func crashed(t *testing.T, folder string) string {
	t.Helper()
	for {
		copied := t.TempDir()
		err := os.CopyFS(copied, os.DirFS(folder))
		if errors.Is(err, fs.ErrNotExist) { // compacted away meanwhile; a later file has all of it
			continue
		}
		require.NoError(t, err)
		return copied
	}
}

func TestSecretsAreStoredOnlyOnRequest(t *testing.T) {
	t.Parallel()
	for _, wanted := range []bool{false, true} {
		folder := t.TempDir()
		s := open(t, folder, func(o *lastgood.Options) { o.Secrets = wanted })
		k := begin(t, s, wire.Delta)
		k.ask(lastgood.SecretType, wire.Request{Subscribe: []string{"the-private-key"}})
		k.accept(lastgood.SecretType, k.offer(lastgood.SecretType, "the-private-key=1"))
		require.Equal(t, wanted, s.Has(lastgood.SecretType, "the-private-key"))
		s.Close()
		require.Equal(t, wanted, bytes.Contains(read(t, folder), []byte("the-private-key")))
	}
}

// read returns the content of all files.
func read(t testing.TB, folder string) (all []byte) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	for _, e := range entries {
		content, err := os.ReadFile(filepath.Join(folder, e.Name()))
		require.NoError(t, err)
		all = append(all, content...)
	}
	return all
}

func TestConfigurationOfAnotherProxyIsNotUsed(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	s := open(t, folder)
	k := begin(t, s, wire.Delta)
	k.accept(clusters, k.offer(clusters, "a=1"))
	s.Close()

	log := &bytes.Buffer{}
	other := func(o *lastgood.Options) { o.Owner, o.Log = "somebody else", slog.New(slog.NewTextHandler(log, nil)) }
	s = open(t, folder, other)
	require.Contains(t, log.String(), `is not this proxy's, and is not used`)
	require.False(t, s.Has(clusters))
	s.Close()
	s = open(t, folder)
	require.Equal(t, map[string]string{"a": "1"}, holds(t, s, clusters), "it is still there for whose it is")
	s.Close()

	s = open(t, folder, other)
	k = begin(t, s, wire.Delta)
	k.accept(clusters, k.offer(clusters, "b=1"))
	s.Close()
	require.Equal(t, map[string]string{"b": "1"}, holds(t, open(t, folder, other), clusters))
	require.NotContains(t, string(read(t, folder)), "me\x12")
	require.False(t, open(t, folder).Has(clusters))
}

// history is a series of accepted states, and the file's size after each.
func history(t *testing.T, steps int) (states []map[string]string, ends []int64, file []byte) {
	t.Helper()
	folder := t.TempDir()
	s := open(t, folder)
	k := begin(t, s, wire.Delta)
	k.ask(clusters, wire.Request{})
	states, ends = append(states, map[string]string{}), append(ends, 0)
	for i := range steps {
		k.accept(clusters, k.offer(clusters, fmt.Sprintf("a%d=%d", i%3, i), fmt.Sprintf("b%d=1", i), fmt.Sprintf("-b%d", i-2)))
		states, ends = append(states, holds(t, s, clusters)), append(ends, size(t, folder))
	}
	s.Close()
	return states, ends, read(t, folder)
}

// A file that ends anywhere has everything that was accepted before that point.
func TestTornFileKeepsEarlierRecords(t *testing.T) {
	t.Parallel()
	states, ends, file := history(t, 6)
	for cut := range file {
		folder := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(folder, "000001.records"), file[:cut], 0o600))
		s := open(t, folder)
		last := 0
		for i, end := range ends {
			if end <= int64(cut) {
				last = i
			}
		}
		require.Equal(t, states[last], holds(t, s, clusters), "cut at %d", cut)

		if cut%16 != 0 {
			continue
		}
		// The store remains usable.
		k := begin(t, s, wire.Delta)
		k.OnRequest(parsed(t, clusters, nil, map[string]string{"a0": "x"}))
		k.accept(clusters, k.offer(clusters, "new=1"))
		s.Close()
		require.Equal(t, "1", holds(t, open(t, folder), clusters)["new"])
	}
}

// A flipped bit costs only its own record.
func TestFlippedBitCostsOneRecord(t *testing.T) {
	t.Parallel()
	states, _, file := history(t, 6)
	whole := states[len(states)-1]
	for at := 60; at < len(file); at += 3 { // skip the header
		broken := bytes.Clone(file)
		broken[at] ^= 1 << rand.N(8)
		folder := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(folder, "000001.records"), broken, 0o600))
		log := &bytes.Buffer{}
		s := open(t, folder, func(o *lastgood.Options) { o.Log = slog.New(slog.NewTextHandler(log, nil)) })
		require.Contains(t, log.String(), "cannot be read, and is left out", "at %d", at)
		different := 0
		have := holds(t, s, clusters)
		for name, version := range whole {
			if have[name] != version {
				different++
			}
		}
		require.LessOrEqual(t, different, 2, "at %d", at) // at most the content of one response
		s.Close()
	}
}

// The files stay proportional to the live data under any number of changes, and a crash at any
// moment loses nothing that was accepted.
func TestCompactionBoundsTheFiles(t *testing.T) {
	t.Parallel()
	for _, form := range []wire.Form{wire.Delta, wire.SotW} {
		t.Run(form.String(), func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			s := open(t, folder)
			k := begin(t, s, form)
			k.ask(clusters, wire.Request{})
			pad := strings.Repeat("x", 2000)
			world := map[string]string{}
			moved := 0
			for round := range 200 {
				var texts []string
				for i := range 10 {
					name := fmt.Sprintf("c%d", (round*7+i)%60)
					world[name] = fmt.Sprintf("%d-%s", round, pad)
				}
				for name, version := range world {
					texts = append(texts, name+"="+version)
				}
				unanswered := k.offer(endpoints, fmt.Sprintf("e=%d", round))
				k.accept(clusters, k.offer(clusters, texts...))
				if round%20 == 0 {
					require.Equal(t, world, holds(t, open(t, crashed(t, folder)), clusters))
				}
				k.accept(endpoints, unanswered)
				if _, err := os.Stat(filepath.Join(folder, "000001.records")); err != nil {
					moved++
				}
				require.Less(t, size(t, folder), int64(8<<20))
			}
			require.Positive(t, moved)
			s.Close()
			s = open(t, folder)
			require.Equal(t, world, holds(t, s, clusters))
			require.Equal(t, map[string]string{"e": "199"}, holds(t, s, endpoints))
		})
	}
}

func TestVirtualHostsSurviveRouteSubscriptions(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir())
	k := begin(t, s, wire.Delta)
	k.ask(hosts, wire.Request{Subscribe: []string{"80"}})
	k.accept(hosts, k.offer(hosts, "80/a=1", "80/b=1"))
	k.Close()
	k = begin(t, s, wire.Delta)
	k.OnRequest(parsed(t, hosts, []string{"80"}, map[string]string{"80/a": "1", "80/b": "1"}))
	require.Len(t, holds(t, s, hosts), 2)
}

func TestUnusableFolder(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := lastgood.Open(lastgood.Options{Folder: file})
	require.ErrorContains(t, err, "keep the last good configuration")
}

// A file with any content can be opened and appended to.
func FuzzFile(f *testing.F) {
	folder := f.TempDir()
	s := open(f, folder)
	k := begin(f, s, wire.Delta)
	k.accept(clusters, k.offer(clusters, "a=1", "b=1"))
	k.accept(clusters, k.offer(clusters, "a=2", "-b"))
	k.accept(endpoints, k.offer(endpoints, "a=1"))
	k.ask(endpoints, wire.Request{Unsubscribe: []string{"a"}})
	s.Close()
	f.Add(read(f, folder))
	f.Add([]byte("\xa7PGM\xa7PGM"))
	f.Fuzz(func(t *testing.T, content []byte) {
		folder := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(folder, "000001.records"), content, 0o600))
		s := open(t, folder)
		_, _ = s.All(clusters)
		k := begin(t, s, wire.Delta)
		k.accept(clusters, k.offer(clusters, "new=1"))
		s.Close()
		s = open(t, folder)
		some, _ := s.Some(clusters, func(name string) bool { return name == "new" })
		require.Len(t, some, 1)
		s.Close()
	})
}
