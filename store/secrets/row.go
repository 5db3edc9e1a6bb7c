package secrets

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// row is a row of the fragment SecretColumns; all are NULL if there is no secret.
type row struct {
	namespace, name, kind, author         *string
	data, labels, digests                 []byte
	notBefore, notAfter, created, updated *time.Time
	accounts                              []string
}

func (r *row) targets() []any {
	return []any{
		&r.namespace, &r.name, &r.kind, &r.data, &r.labels, &r.digests, &r.notBefore, &r.notAfter, &r.author, &r.created, &r.updated, &r.accounts,
	}
}

func (r *row) secret() (*Secret, error) {
	if r.name == nil {
		return nil, nil
	}
	s := &Secret{Namespace: *r.namespace, Name: *r.name, Type: *r.kind, Author: *r.author, Created: *r.created, Updated: *r.updated, ServiceAccounts: r.accounts}
	if r.notAfter != nil {
		s.NotBefore, s.NotAfter = *r.notBefore, *r.notAfter
	}
	for text, into := range map[*[]byte]*map[string]string{&r.data: &s.Data, &r.labels: &s.Labels, &r.digests: &s.Digests} {
		if err := json.Unmarshal(*text, into); err != nil {
			return nil, fmt.Errorf("reading a column of %s, which is no object of strings", s)
		}
	}
	return s, nil
}

func collect(rows pgx.Rows) ([]*Secret, error) {
	return pgx.CollectRows(rows, func(found pgx.CollectableRow) (*Secret, error) {
		var r row
		if err := found.Scan(r.targets()...); err != nil {
			return nil, err
		}
		return r.secret()
	})
}
