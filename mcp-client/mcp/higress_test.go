package mcp_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/timestamppb"
	mcpapi "istio.io/api/mcp/v1alpha1"

	"github.com/pgmesh/pgmesh/mcp-client/mcp"
)

// likeHigress behaves like istiod's server without the incremental form.
func likeHigress() manners {
	m := likeIstiod()
	m.delta, m.identifier = nil, `{"Component":"higress"}`
	return m
}

// extended is a resource as Higress sends it: with a name, a time, no version, and an extra field
// with number 100.
func extended(t *testing.T, name, host, extra string) *anypb.Any {
	t.Helper()
	spec, err := anypb.New(entry("", host).Spec.Message())
	require.NoError(t, err)
	r := &mcpapi.Resource{Metadata: &mcpapi.Metadata{Name: name, CreateTime: &timestamppb.Timestamp{Seconds: 1}}, Body: spec}
	r.ProtoReflect().SetUnknown(protowire.AppendString(protowire.AppendTag(nil, 100, protowire.BytesType), extra))
	body, err := anypb.New(r)
	require.NoError(t, err)
	return body
}

func TestHigress(t *testing.T) {
	t.Parallel()
	p := newPeer(t, likeHigress())
	p.serve(serviceEntry.TypeURL(), extended(t, "higress-system/a", "1", `{"k":1}`))
	f := follow(t, p.addr)
	f.expect(0, "ServiceEntry higress-system/a=1")
	require.Equal(t, mcp.XDS, f.client.Status().Protocol)

	p.serve(serviceEntry.TypeURL(), extended(t, "higress-system/a", "1", `{"k":2}`)) // the envelope of this fork
	p.serve(serviceEntry.TypeURL(), extended(t, "higress-system/a", "2", `{"k":2}`))
	f.expect(0, "ServiceEntry higress-system/a=2")
	p.replace(map[string][]*anypb.Any{virtualService.TypeURL(): bodies(t, route("r", "1"))})
	f.expect(0, "ServiceEntry higress-system/a gone", "VirtualService default/r=1")
	_, delta := p.forms()
	require.Equal(t, 1, delta, "what is not there is not asked for at every reconnect")
}

// Slime's private form sends only changes, and a deletion as a resource without a body. Both ends
// must enable it. Here they do not: the client refuses such a resource and keeps its last good
// state.
func TestSlimeIncrementsAreRefused(t *testing.T) {
	t.Parallel()
	p := newPeer(t, likeHigress())
	p.serve(serviceEntry.TypeURL(), bodies(t, entry("a", "1"))...)
	f := follow(t, p.addr, only(serviceEntry))
	f.expect(0, "ServiceEntry default/a=1")
	gone, err := anypb.New(&mcpapi.Resource{Metadata: &mcpapi.Metadata{Name: "default/a"}})
	require.NoError(t, err)
	p.serve(serviceEntry.TypeURL(), gone, envelope(t, entry("b", "1"), ""))
	f.expect(0, "ServiceEntry default/b=1")
	require.Contains(t, (<-p.nacks).GetErrorDetail().GetMessage(), "ServiceEntry default/a from MCP: it has no body")
}
