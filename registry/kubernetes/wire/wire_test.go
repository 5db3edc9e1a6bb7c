package wire_test

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/pgmesh/pgmesh/registry/kubernetes/wire"
)

// text is a field that is a text, a message or bytes.
func text(field protowire.Number, value string) string {
	return string(protowire.AppendString(protowire.AppendTag(nil, field, protowire.BytesType), value))
}

func number(field protowire.Number, value uint64) string {
	return string(protowire.AppendVarint(protowire.AppendTag(nil, field, protowire.VarintType), value))
}

// sent is an object as it is sent by itself.
func sent(kind, message string) string {
	return "k8s\x00" + text(1, text(1, "v1")+text(2, kind)) + text(2, message) + text(3, "") + text(4, "")
}

func TestMessage(t *testing.T) {
	t.Parallel()
	m := wire.Read([]byte(text(1, "a") + number(2, 8080) + text(3, text(1, "key")+text(2, "value")) + text(3, text(1, "empty")) + number(4, 1) + text(9, "unknown")))
	var name, named string
	var port uint32
	var is bool
	var entries map[string]string
	for m.Next() {
		switch m.Field() {
		case 1:
			name = m.Text()
		case 2:
			port = m.Port()
		case 3:
			m.Entry(&entries)
			m.Named("key", &named)
		case 4:
			is = m.Bool()
		}
	}
	require.NoError(t, m.Err())
	require.Equal(t, "a value", name+" "+named)
	require.EqualValues(t, 8080, port)
	require.True(t, is)
	require.Equal(t, map[string]string{"key": "value", "empty": ""}, entries)
}

func TestAMessageThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		message string
		read    func(*wire.Message)
	}{
		"it breaks off":                   {text(1, "abc")[:3], func(*wire.Message) {}},
		"a number in place of a text":     {number(1, 7), func(m *wire.Message) { m.Text() }},
		"a text in place of a number":     {text(1, "7"), func(m *wire.Message) { m.Number() }},
		"a port that is negative":         {number(1, 1<<64-1), func(m *wire.Message) { m.Port() }},
		"a message that breaks off in it": {text(1, text(1, "abc")[:3]), func(m *wire.Message) { m.Within(func(*wire.Message) {}) }},
	} {
		m := wire.Read([]byte(c.message + text(2, "after")))
		fields := 0
		for m.Next() {
			if fields++; fields == 1 {
				c.read(m)
			}
		}
		require.Error(t, m.Err(), name)
		require.LessOrEqual(t, fields, 1, name)
	}
}

func TestObject(t *testing.T) {
	t.Parallel()
	kind, message, err := wire.Object([]byte(sent("Pod", "message")))
	require.NoError(t, err)
	require.Equal(t, "Pod message", kind+" "+string(message))
	for _, bad := range []string{"", "k8s", `{"kind":"Pod"}`, "k8s\x00\xff"} {
		_, _, err := wire.Object([]byte(bad))
		require.Error(t, err, bad)
	}
}

// read reads a list, of which each object may have sixteen bytes.
func read(from io.Reader) (l wire.List, objects []string, err error) {
	l = wire.List{Most: 16, Objects: func(message []byte) error {
		objects = append(objects, string(message))
		return nil
	}}
	err = l.Read(from)
	return l, objects, err
}

func TestList(t *testing.T) {
	t.Parallel()
	whole := sent("List", text(1, text(2, "7")+text(3, "x"))+text(2, "one")+text(2, "")+text(2, "another"))
	l, objects, err := read(iotest.OneByteReader(strings.NewReader(whole)))
	require.NoError(t, err)
	require.Equal(t, []string{"one", "", "another"}, objects)
	require.Equal(t, "7 x", l.Version+" "+l.Continue)

	end := strings.LastIndex(whole, "another") + len("another")
	for i := range end {
		_, _, err := read(bytes.NewReader([]byte(whole[:i])))
		require.ErrorIs(t, err, io.ErrUnexpectedEOF, "of %d bytes", i)
	}
}

func TestAListThatIsNone(t *testing.T) {
	t.Parallel()
	for bad, want := range map[string]string{
		`{"items":[]}`:                                   "it is no protobuf of Kubernetes",
		sent("List", text(2, "one")):                     "it is no list of Kubernetes",
		sent("List", text(2, "more than sixteen bytes")): "an object has more than 0 MiB",
		sent("List", number(2, 1)):                       "field 2 of a list has the wire type 0",
		sent("List", text(1, "\xff")):                    "unexpected EOF",
		sent("List", text(2, "one")[:3]):                 "it is no protobuf of Kubernetes",
		"k8s\x00" + strings.Repeat("\xff", 11):           "more than 64 bits",
	} {
		_, _, err := read(strings.NewReader(bad))
		var malformed *wire.Malformed
		require.ErrorAs(t, err, &malformed, bad)
		require.ErrorContains(t, err, want, bad)
	}
}
