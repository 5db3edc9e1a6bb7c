package serve

import (
	"context"
	"net"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// viewer lets a machine see the proxies of its own namespace, and one of the root namespace all, as
// Istio does.
func (m *members) viewer(ctx context.Context) (namespace string, err error) {
	member, err := m.door.Machine(ctx)
	if err != nil {
		return "", err
	}
	if namespace = member.Workload.Namespace; namespace == m.root() {
		return "", nil
	}
	return namespace, nil
}

var errElsewhere = status.Error(codes.PermissionDenied,
	"which proxies there are is told to the machine that discovery runs on: ask there, at 127.0.0.1, or have discovery know its callers by certificates")

// viewer lets the machine's own people see all, as the pages do. Whoever calls from elsewhere has
// proven nothing.
func (anybody) viewer(ctx context.Context) (namespace string, err error) {
	if p, ok := peer.FromContext(ctx); ok {
		if at, ok := p.LocalAddr.(*net.TCPAddr); ok && at.IP.IsLoopback() {
			return "", nil
		}
	}
	return "", errElsewhere
}
