package saved_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-server/publish"
	"github.com/pgmesh/pgmesh/mcp-server/saved"
	savedv1 "github.com/pgmesh/pgmesh/proto/pgmesh/saved/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var serviceEntry, virtualService = kind("ServiceEntry"), kind("VirtualService")

func kind(name string) *kinds.Kind {
	k, err := kinds.ByName(name)
	if err != nil {
		panic(err)
	}
	return k
}

// entry returns a ServiceEntry as it is sent.
func entry(tb testing.TB, name, host string) *served.Resource {
	tb.Helper()
	body, err := (&kinds.Resource{Kind: serviceEntry, Namespace: "default", Name: name, Spec: kinds.SpecOf(&networking.ServiceEntry{Hosts: []string{host}})}).Any(host)
	require.NoError(tb, err)
	return &served.Resource{Name: "default/" + name, Version: host, Body: body}
}

var places = []string{"postgres://a:5432/mesh", "postgres://b:5432/mesh"}

// stateOf returns a state of entries, each with a host of its name.
func stateOf(tb testing.TB, revision int64, entries ...string) *publish.State {
	tb.Helper()
	s := &publish.State{
		Mesh: "m", At: publish.Position{Revision: revision, Mark: "x.1"}, AsOf: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC),
		Sets: map[*kinds.Kind]*served.Set{virtualService: nil},
	}
	for _, e := range entries {
		s.Sets[serviceEntry] = s.Sets[serviceEntry].With([]*served.Resource{entry(tb, e, e)}, nil)
	}
	return s
}

func fileState(tb testing.TB, s *publish.State) []byte {
	tb.Helper()
	var file bytes.Buffer
	require.NoError(tb, saved.Write(&file, s, places))
	return file.Bytes()
}

func read(file []byte) (*publish.State, []string, error) {
	return saved.Read(bytes.NewReader(file), int64(len(file)))
}

func TestReadReturnsWhatWriteWrote(t *testing.T) {
	t.Parallel()
	want := stateOf(t, 7, "a", "b")
	got, from, err := read(fileState(t, want))
	require.NoError(t, err)
	require.Equal(t, places, from)
	require.Equal(t, want.Mesh, got.Mesh)
	require.Equal(t, want.At, got.At)
	require.Equal(t, want.AsOf, got.AsOf)
	require.Equal(t, 2, got.Len())
	for r := range want.Sets[serviceEntry].All() {
		same := got.Sets[serviceEntry].Get(r.Name)
		require.Equal(t, r.Version, same.Version)
		require.Equal(t, r.Body.GetTypeUrl(), same.Body.GetTypeUrl())
		require.Equal(t, r.Body.GetValue(), same.Body.GetValue())
	}
}

func TestAFileThatIsDamagedAnywhereIsNotRead(t *testing.T) {
	t.Parallel()
	whole := fileState(t, stateOf(t, 7, "a", "b"))
	for i := range whole {
		for _, bit := range []byte{1, 0x80} {
			file := bytes.Clone(whole)
			file[i] ^= bit
			_, _, err := read(file)
			var broken *saved.DamagedError
			require.ErrorAs(t, err, &broken, "byte %d", i)
		}
		_, _, err := read(whole[:i])
		var broken *saved.DamagedError
		require.ErrorAs(t, err, &broken, "cut off after %d bytes", i)
	}
	_, _, err := read(append(bytes.Clone(whole), 0))
	require.EqualError(t, err, "there is something after its end")
}

func TestAFileOfANewerFormatIsNotRead(t *testing.T) {
	t.Parallel()
	file := bytes.Replace(fileState(t, stateOf(t, 7)), []byte("snapshot 1\n"), []byte("snapshot 2\n"), 1)
	_, _, err := read(file)
	require.EqualError(t, err, `it has version "2" of the format, and this program reads version 1`)
	_, _, err = read([]byte(strings.Repeat("x", 100)))
	require.EqualError(t, err, `it does not begin with "pgmesh snapshot "`)
}

// A read error does not mean that the file is damaged.
func TestAFailureToReadIsNotDamage(t *testing.T) {
	t.Parallel()
	whole := fileState(t, stateOf(t, 7, "a"))
	why := errors.New("the disk is on fire")
	for _, after := range []int{0, 5, 30, len(whole) - 40, len(whole) - 5} {
		_, _, err := saved.Read(io.MultiReader(bytes.NewReader(whole[:after]), iotest.ErrReader(why)), int64(len(whole)))
		require.ErrorIs(t, err, why)
		require.NotErrorAs(t, err, new(*saved.DamagedError))
	}
}

func TestALengthThatCannotBeCostsNoMemory(t *testing.T) {
	t.Parallel()
	file := []byte("pgmesh snapshot 1\n\xff\xff\xff\xff\x7f")
	_, _, err := read(file)
	require.ErrorAs(t, err, new(*saved.DamagedError))
	require.ErrorContains(t, err, "message size 34359738367 exceeded unmarshaler's maximum configured size")
}

// Another program may have written these, with a correct checksum.
func TestInvalidRecordsAreDamage(t *testing.T) {
	t.Parallel()
	header := &savedv1.Record{Record: &savedv1.Record_Header{Header: &savedv1.Header{Mesh: "m"}}}
	resource := &savedv1.Record{Record: &savedv1.Record_Resource{Resource: &savedv1.Resource{TypeUrl: "of.tomorrow/v1/Kind", Name: "x"}}}
	end := func(n int64) *savedv1.Record {
		return &savedv1.Record{Record: &savedv1.Record_End{End: &savedv1.End{Resources: n}}}
	}
	for want, records := range map[string][]*savedv1.Record{
		"it has no header":                        {resource, end(1)},
		"it has two headers":                      {timed(header), timed(header), end(0)},
		"its time: ":                              {header, end(0)},
		"record that is nothing":                  {timed(header), {}, end(0)},
		"it has 1 resources where 2 were written": {timed(header), resource, end(2)},
	} {
		_, _, err := read(sealed(t, records...))
		require.ErrorContains(t, err, want)
		require.ErrorAs(t, err, new(*saved.DamagedError))
	}
	s, _, err := read(sealed(t, timed(header), resource, end(1)))
	require.NoError(t, err)
	require.Zero(t, s.Len(), "a kind that this program does not know is left out")
}

func timed(header *savedv1.Record) *savedv1.Record {
	r := proto.CloneOf(header)
	r.GetHeader().AsOf = nowInProto()
	return r
}

func sealed(tb testing.TB, records ...*savedv1.Record) []byte {
	tb.Helper()
	var file bytes.Buffer
	file.WriteString("pgmesh snapshot 1\n")
	for _, r := range records {
		_, err := protodelim.MarshalTo(&file, r)
		require.NoError(tb, err)
	}
	return append(file.Bytes(), sum(file.Bytes())...)
}

// FuzzRead uses any bytes as the content of a file, with a correct checksum, so that they get past
// it.
func FuzzRead(f *testing.F) {
	whole := fileState(f, stateOf(f, 7, "a", "b"))
	f.Add(whole[len("pgmesh snapshot 1\n"):len(whole)-32], true)
	f.Add(whole[len("pgmesh snapshot 1\n"):], false)
	f.Add([]byte("\xff\xff\xff\xff\x7f"), true)
	f.Fuzz(func(t *testing.T, inside []byte, seal bool) {
		file := append([]byte("pgmesh snapshot 1\n"), inside...)
		if seal {
			file = append(file, sum(file)...)
		}
		s, from, err := read(file)
		if err != nil {
			require.ErrorAs(t, err, new(*saved.DamagedError))
			return
		}
		var again bytes.Buffer // what can be read can be written, and means the same
		require.NoError(t, saved.Write(&again, s, from))
		same, sameFrom, err := read(again.Bytes())
		require.NoError(t, err)
		require.Equal(t, s.At, same.At)
		require.Equal(t, s.Mesh, same.Mesh)
		require.Equal(t, from, sameFrom)
		require.Equal(t, s.Len(), same.Len())
	})
}
