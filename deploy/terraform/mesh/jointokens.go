package mesh

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// CreateJoinToken makes a token, by which machines become members.
func (m *Mesh) CreateJoinToken(ctx context.Context, req *adminv1.CreateJoinTokenRequest) (*adminv1.CreateJoinTokenResponse, error) {
	return explainedCall(ctx, m, adminv1.NewJoinTokenServiceClient(m.conn).CreateJoinToken, req, func(err error) error {
		if status.Code(err) == codes.DeadlineExceeded {
			return fmt.Errorf("%w: mcp-client token list -n %s shows it", m.Session.Server.Undecided(), req.GetNamespace())
		}
		return m.explain(err)
	})
}

// JoinToken returns what is known of a token. The error is ErrAbsent if there is none.
func (m *Mesh) JoinToken(ctx context.Context, namespace, name string) (*adminv1.JoinToken, error) {
	answer, err := call(ctx, m, adminv1.NewJoinTokenServiceClient(m.conn).ListJoinTokens, &adminv1.ListJoinTokensRequest{Namespaces: []string{namespace}})
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(answer.GetTokens(), func(t *adminv1.JoinToken) bool { return t.GetName() == name })
	if i < 0 {
		return nil, ErrAbsent
	}
	return answer.GetTokens()[i], nil
}

// RevokeJoinToken takes a token back, if there is one. Who has joined with it stays.
func (m *Mesh) RevokeJoinToken(ctx context.Context, name string) error {
	_, err := call(ctx, m, adminv1.NewJoinTokenServiceClient(m.conn).RevokeJoinToken, &adminv1.RevokeJoinTokenRequest{Name: name})
	if errors.Is(err, ErrAbsent) {
		return nil
	}
	return err
}
