package admit

import (
	"context"
	"fmt"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/identity"
)

// The metadata in which a node says who it is.
const (
	namespaceKey      = "NAMESPACE"
	serviceAccountKey = "SERVICE_ACCOUNT"
)

// Node is a [push.Admission]: a proxy is who its certificate says. Its node must name the same
// namespace and service account, or none.
func (d *Door) Node(ctx context.Context, node *corev3.Node) (*corev3.Node, error) {
	state := d.trust()
	if state == nil {
		return nil, errNoTrust
	}
	m, err := judge(ctx, state, true)
	if err != nil {
		return nil, refusalOf(err)
	}
	if refusal := contradiction(m.ID.String(), m.Workload, node); refusal != nil {
		return nil, refusal
	}
	return withIdentity(node, m.Workload), nil
}

// contradiction returns what a node claims against its certificate; nil if nothing.
func contradiction(id string, proved identity.Workload, node *corev3.Node) *push.RefusalError {
	differs := func(reason, what, proved, claimed string) *push.RefusalError {
		return &push.RefusalError{
			Reason: reason, Code: codes.PermissionDenied,
			Text: fmt.Sprintf("the certificate proves %s, which has the %s %q, and the node claims %.100q: start the proxy with what its certificate says, or join with a token for what it is to be",
				id, what, proved, claimed),
		}
	}
	if claimed, claims := claimedNamespace(node); claims && claimed != proved.Namespace {
		return differs("namespace", "namespace", proved.Namespace, claimed)
	}
	if claimed, claims := claim(node, serviceAccountKey); claims && claimed != proved.ServiceAccount {
		return differs("service_account", "service account", proved.ServiceAccount, claimed)
	}
	return nil
}

// claimedNamespace is the namespace that a node claims, in its metadata or else in its domain, as
// in shop.svc.cluster.local.
func claimedNamespace(node *corev3.Node) (string, bool) {
	if claimed, claims := claim(node, namespaceKey); claims {
		return claimed, true
	}
	domain := node.GetId()[strings.LastIndex(node.GetId(), "~")+1:]
	namespace, rest, _ := strings.Cut(domain, ".")
	return namespace, rest == "svc" || strings.HasPrefix(rest, "svc.")
}

// claim is a text in a node's metadata. A value that is not text is a claim that nothing matches.
func claim(node *corev3.Node, key string) (string, bool) {
	value := node.GetMetadata().GetFields()[key]
	switch value.GetKind().(type) {
	case nil, *structpb.Value_NullValue:
		return "", false
	case *structpb.Value_StringValue:
		return value.GetStringValue(), value.GetStringValue() != ""
	default:
		return value.String(), true
	}
}

// withIdentity returns a node that says who it is. If the node does so already, it is returned as
// it is.
func withIdentity(node *corev3.Node, proved identity.Workload) *corev3.Node {
	_, hasNamespace := claim(node, namespaceKey)
	_, hasAccount := claim(node, serviceAccountKey)
	if hasNamespace && hasAccount {
		return node
	}
	out := proto.CloneOf(node)
	if out.GetMetadata().GetFields() == nil {
		out.Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{}}
	}
	out.Metadata.Fields[namespaceKey] = structpb.NewStringValue(proved.Namespace)
	out.Metadata.Fields[serviceAccountKey] = structpb.NewStringValue(proved.ServiceAccount)
	return out
}
