package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// Revocation revokes an identity or an enrolment.
type Revocation struct {
	Namespace string // empty for a server
	Identity  string // without the trust domain: ns/NAMESPACE/sa/SERVICE-ACCOUNT or pgmesh/PROGRAM/NAME
	Enrolment string
	Reason    string
	At        time.Time
	By        string
	Lifted    time.Time // zero while it is in force
	Lifter    string
}

// Revocations lists the revocations of some namespaces; all, and those of servers, if none are given. It
// includes lifted ones. The newest come first.
func (s *Store) Revocations(ctx context.Context, namespaces []string) ([]Revocation, error) {
	ctx, cancel := context.WithTimeout(ctx, QueryTimeout)
	defer cancel()
	rows, err := s.trust.Query(ctx, `SELECT namespace, coalesce(identity, ''), coalesce(enrolment, ''), reason, revoked_at, revoked_by, coalesce(lifted_at, '0001-01-01Z'), coalesce(lifted_by, '')
		FROM mesh.revocations WHERE $1::text[] IS NULL OR namespace = ANY ($1) ORDER BY id DESC`, namespaces)
	if err != nil {
		return nil, Explain("reading the revocations", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Revocation])
	return list, Explain("reading the revocations", err)
}

// NamespaceOf returns the namespace of a machine, given its enrolment; "" for a server's. It returns an
// InvalidError if nobody has joined as that.
func (s *Store) NamespaceOf(ctx context.Context, enrolment string) (namespace string, err error) {
	err = s.trust.QueryRow(ctx, "SELECT mesh.namespace_of_enrolment($1)", enrolment).Scan(&namespace)
	return namespace, ExplainInput("looking for a machine", err)
}

// RevokeIdentity revokes all machines of a service account, and reports whether that changed anything.
func (s *Store) RevokeIdentity(ctx context.Context, namespace, serviceAccount, reason, by string) (bool, error) {
	return s.revocation(ctx, by, "SELECT mesh.revoke_identity($1, $2, $3)", namespace, serviceAccount, reason)
}

// RestoreIdentity lifts the revocation of RevokeIdentity, and reports whether there was one.
func (s *Store) RestoreIdentity(ctx context.Context, namespace, serviceAccount, by string) (bool, error) {
	return s.revocation(ctx, by, "SELECT mesh.restore_identity($1, $2)", namespace, serviceAccount)
}

// RevokeMachine revokes one machine.
func (s *Store) RevokeMachine(ctx context.Context, enrolment, reason, by string) (bool, error) {
	return s.revocation(ctx, by, "SELECT mesh.revoke_machine($1, $2)", enrolment, reason)
}

// RestoreMachine lifts the revocation of RevokeMachine.
func (s *Store) RestoreMachine(ctx context.Context, enrolment, by string) (bool, error) {
	return s.revocation(ctx, by, "SELECT mesh.restore_machine($1)", enrolment)
}

// RevokeServer revokes a server by its program and name.
func (s *Store) RevokeServer(ctx context.Context, program, name, reason, by string) (bool, error) {
	return s.revocation(ctx, by, "SELECT mesh.revoke_server($1, $2, $3)", program, name, reason)
}

// RestoreServer lifts the revocation of RevokeServer.
func (s *Store) RestoreServer(ctx context.Context, program, name, by string) (bool, error) {
	return s.revocation(ctx, by, "SELECT mesh.restore_server($1, $2)", program, name)
}

func (s *Store) revocation(ctx context.Context, by, query string, args ...any) (bool, error) {
	return CallInTheNameOf(ctx, s.trust, "revoking or restoring a member of the mesh", by, query, args...)
}
