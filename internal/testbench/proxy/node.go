package proxy

import (
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// Envoy lists all its extensions at the beginning of each stream, which is 60 kB. These are the
// numbers of 1.40.
const (
	envoyMinor      = 40
	envoyExtensions = 516
)

// ofEnvoy adds to a bootstrap's node what Envoy adds.
func ofEnvoy(node *corev3.Node) *corev3.Node {
	n := proto.CloneOf(node)
	n.UserAgentName = "envoy"
	n.UserAgentVersionType = &corev3.Node_UserAgentBuildVersion{UserAgentBuildVersion: &corev3.BuildVersion{
		Version: &typev3.SemanticVersion{MajorNumber: 1, MinorNumber: envoyMinor},
		Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{
			"build.type": structpb.NewStringValue("RELEASE"), "ssl.version": structpb.NewStringValue("BoringSSL"),
			"revision.status": structpb.NewStringValue("Clean"), "revision.sha": structpb.NewStringValue("9e5580933739775e8bce696a57a2e1bc99368f23"),
		}},
	}}
	for i := range envoyExtensions {
		n.Extensions = append(n.Extensions, &corev3.Extension{
			Name: fmt.Sprintf("envoy.filters.http.simulated_%03d", i), Category: "envoy.filters.http",
			TypeUrls: []string{fmt.Sprintf("envoy.extensions.filters.http.simulated_%03d.v3.Simulated", i)},
		})
	}
	return n
}
