package trust

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/store"
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

// Revocations lists the revocations of some namespaces; all, and those of servers, if none are
// given. It includes lifted ones. The newest come first.
func (s *Store) Revocations(ctx context.Context, namespaces []string) ([]Revocation, error) {
	ctx, cancel := context.WithTimeout(ctx, store.QueryTimeout)
	defer cancel()
	rows, err := s.db.TrustPool().Query(ctx, sql.Revocations, namespaces)
	if err != nil {
		return nil, store.Explain("reading the revocations", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Revocation])
	return list, store.Explain("reading the revocations", err)
}

// NamespaceOf returns the namespace of a machine, given its enrolment; "" for a server's. It
// returns an InvalidError if nobody has joined as that.
func (s *Store) NamespaceOf(ctx context.Context, enrolment string) (namespace string, err error) {
	err = s.db.TrustPool().QueryRow(ctx, sql.NamespaceOf, enrolment).Scan(&namespace)
	return namespace, store.ExplainInput("looking for a machine", err)
}

// RevokeIdentity revokes all machines of a service account, and reports whether that changed
// anything.
func (s *Store) RevokeIdentity(ctx context.Context, namespace, serviceAccount, reason, by string) (bool, error) {
	return s.revocation(ctx, by, sql.RevokeIdentity, namespace, serviceAccount, reason)
}

// RestoreIdentity lifts the revocation of RevokeIdentity, and reports whether there was one.
func (s *Store) RestoreIdentity(ctx context.Context, namespace, serviceAccount, by string) (bool, error) {
	return s.revocation(ctx, by, sql.RestoreIdentity, namespace, serviceAccount)
}

// RevokeMachine revokes one machine.
func (s *Store) RevokeMachine(ctx context.Context, enrolment, reason, by string) (bool, error) {
	return s.revocation(ctx, by, sql.RevokeMachine, enrolment, reason)
}

// RestoreMachine lifts the revocation of RevokeMachine.
func (s *Store) RestoreMachine(ctx context.Context, enrolment, by string) (bool, error) {
	return s.revocation(ctx, by, sql.RestoreMachine, enrolment)
}

// RevokeServer revokes a server by its program and name.
func (s *Store) RevokeServer(ctx context.Context, program, name, reason, by string) (bool, error) {
	return s.revocation(ctx, by, sql.RevokeServer, program, name, reason)
}

// RestoreServer lifts the revocation of RevokeServer.
func (s *Store) RestoreServer(ctx context.Context, program, name, by string) (bool, error) {
	return s.revocation(ctx, by, sql.RestoreServer, program, name)
}

func (s *Store) revocation(ctx context.Context, by, query string, args ...any) (bool, error) {
	return store.CallInTheNameOf(ctx, s.db.TrustPool(), "revoking or restoring a member of the mesh", by, query, args...)
}
