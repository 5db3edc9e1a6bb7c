package recording

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
)

func packed(t *testing.T, m proto.Message) *anypb.Any {
	t.Helper()
	body, err := anypb.New(m)
	require.NoError(t, err)
	return body
}

// written puts responses into a file as the exam's runner does; behind is what follows the last of
// them.
func written(t *testing.T, behind []byte, responses ...*discoveryv3.DiscoveryResponse) string {
	t.Helper()
	var text bytes.Buffer
	zipped := gzip.NewWriter(&text)
	for _, r := range responses {
		one, err := proto.Marshal(r)
		require.NoError(t, err)
		_, err = zipped.Write(append(binary.AppendUvarint(nil, uint64(len(one))), one...))
		require.NoError(t, err)
	}
	_, err := zipped.Write(behind)
	require.NoError(t, err)
	require.NoError(t, zipped.Close())
	file := filepath.Join(t.TempDir(), "one.xds.gz")
	require.NoError(t, os.WriteFile(file, text.Bytes(), 0o600))
	return file
}

func TestARecordingIsTreesUnderTheNamesOfResources(t *testing.T) {
	t.Parallel()
	cluster := &clusterv3.Cluster{
		Name: "a", ConnectTimeout: durationpb.New(time.Second), LbPolicy: clusterv3.Cluster_MAGLEV,
		TypedExtensionProtocolOptions: map[string]*anypb.Any{
			"known":   packed(t, &endpointv3.ClusterLoadAssignment{ClusterName: "inner"}),
			"unknown": {TypeUrl: "type.googleapis.com/nobody.Knows", Value: []byte("x")},
		},
	}
	r, err := Read(written(t, nil,
		&discoveryv3.DiscoveryResponse{Nonce: "CDS", Resources: []*anypb.Any{packed(t, cluster)}},
		&discoveryv3.DiscoveryResponse{Nonce: "EDS", Resources: []*anypb.Any{packed(t, &endpointv3.ClusterLoadAssignment{ClusterName: "b"})}},
		&discoveryv3.DiscoveryResponse{Nonce: "RDS"}))
	require.NoError(t, err)
	require.Equal(t, map[string]bool{"CDS": true, "EDS": true, "RDS": true}, r.Kinds)
	require.Equal(t, map[Resource]map[string]any{
		{"CDS", "a"}: {
			"name": "a", "connect_timeout": "1s", "lb_policy": "MAGLEV",
			"typed_extension_protocol_options": map[string]any{
				"known":   map[string]any{"@type": "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment", "cluster_name": "inner"},
				"unknown": map[string]any{"@type": "type.googleapis.com/nobody.Knows", "bytes": "eA=="},
			},
		},
		{"EDS", "b"}: {"cluster_name": "b"},
	}, r.Resources)
}

func TestADamagedRecordingIsAnError(t *testing.T) {
	t.Parallel()
	for complaint, behind := range map[string][]byte{
		"cut off":        binary.AppendUvarint(nil, 100),
		"are not read":   binary.AppendUvarint(nil, largest+1),
		"cannot parse":   {2, 0xff, 0xff},
		"unexpected EOF": {0x80},
	} {
		_, err := Read(written(t, behind))
		require.ErrorContains(t, err, complaint)
		require.NotErrorIs(t, err, io.EOF)
	}
}
