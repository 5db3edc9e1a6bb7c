package client_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/registry/kubernetes/client"
	"github.com/pgmesh/pgmesh/registry/kubernetes/kubeconfig"
)

// A server that has no protobuf of what is asked for answers with JSON, lists and changes alike, as all do
// for custom resources.
func TestAServerWithoutProtobuf(t *testing.T) {
	t.Parallel()
	c := asks(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept") != "application/vnd.kubernetes.protobuf, application/json" {
			w.WriteHeader(http.StatusNotAcceptable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Query().Get("watch") == "" {
			_, _ = io.WriteString(w, `{"metadata":{"resourceVersion":"1"},"items":[{"a":1}]}`)
			return
		}
		_, _ = io.WriteString(w, `{"type":"ADDED","object":{"a":2}}`)
	})
	var found []string
	version, err := c.List(t.Context(), "/things", client.Objects{
		JSON: func(d *json.Decoder) error {
			var text json.RawMessage
			err := d.Decode(&text)
			found = append(found, string(text))
			return err
		},
		Protobuf: func([]byte) error {
			require.Fail(t, "it is no protobuf")
			return nil
		},
	})
	require.NoError(t, err)
	require.NoError(t, c.Watch(t.Context(), "/things", version, true, func() {}, func(e client.Event) error {
		require.Nil(t, e.Message)
		found = append(found, string(e.Object))
		return nil
	}))
	require.Equal(t, []string{`{"a":1}`, `{"a":2}`}, found)
}

// An answer that says it is protobuf, and is none, is garbage, and not a broken connection.
func TestProtobufThatIsNone(t *testing.T) {
	t.Parallel()
	c := asks(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/vnd.kubernetes.protobuf")
		_, _ = io.WriteString(w, `{"metadata":{"resourceVersion":"1"},"items":[]}`)
	})
	_, err := c.List(t.Context(), "/things", client.Objects{Protobuf: func([]byte) error { return nil }})
	var garbage *client.Garbage
	require.ErrorAs(t, err, &garbage)
	require.ErrorContains(t, err, "it is no protobuf of Kubernetes")
	err = c.Watch(t.Context(), "/things", "1", true, func() {}, func(client.Event) error { return nil })
	require.ErrorAs(t, err, &garbage)
}

// asks is a client of a server that answers so.
func asks(t *testing.T, answer http.HandlerFunc) *client.Client {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	at, err := url.Parse(server.URL)
	require.NoError(t, err)
	access := func() *kubeconfig.Access { return &kubeconfig.Access{Server: at} }
	transport := client.NewTransport(access, time.Second)
	t.Cleanup(transport.CloseIdleConnections)
	return &client.Client{Access: access, Transport: transport, Patience: 10 * time.Second}
}
