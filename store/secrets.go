package store

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/kinds"
)

// Secret is a secret as stored: its values are base64, or encrypted by whoever wrote them.
type Secret struct {
	Namespace, Name     string
	Type                string
	Labels              map[string]string
	Data                map[string]string
	ServiceAccounts     []string          // of the gateways that may have it; all in its namespace if empty
	Digests             map[string]string // these tell values apart and reveal nothing else
	NotBefore, NotAfter time.Time         // of its certificate; zero if there is none
	Author              string
	Created, Updated    time.Time
}

// Key names the secret.
func (s *Secret) Key() kinds.Key {
	return kinds.Key{Kind: kinds.Secret, Namespace: s.Namespace, Name: s.Name}
}

// String keeps the values out of logs and errors.
func (s *Secret) String() string { return s.Key().String() }

// SecretChange is the current state of a secret that a revision changed.
type SecretChange struct {
	Key kinds.Key
	Now *Secret // nil if it is gone
	// Through is the last revision that changed the secret. Earlier values are not kept: a reader that is
	// behind gets the newest value, and has a consistent state again once it has read that revision.
	Through Revision
}

const secretColumns = "s.namespace, s.name, s.type, s.data, s.labels, s.digests, s.not_before, s.not_after, s.author, s.created_at, s.updated_at, s.service_accounts" //nolint:gosec // names of columns

// secretRow is a row of these columns; all are NULL if there is no secret.
type secretRow struct {
	namespace, name, kind, author         *string
	data, labels, digests                 []byte
	notBefore, notAfter, created, updated *time.Time
	accounts                              []string
}

func (r *secretRow) targets() []any {
	return []any{
		&r.namespace, &r.name, &r.kind, &r.data, &r.labels, &r.digests, &r.notBefore, &r.notAfter, &r.author, &r.created, &r.updated, &r.accounts,
	}
}

func (r *secretRow) secret() (*Secret, error) {
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

// Secrets lists the secrets of some namespaces; all if none are given.
func (s *Store) Secrets(ctx context.Context, namespaces []string) ([]*Secret, error) {
	rows, err := s.pool.Query(ctx, "SELECT "+secretColumns+` FROM mesh.secrets s
		WHERE $1::text[] IS NULL OR s.namespace = ANY ($1) ORDER BY s.namespace COLLATE "C", s.name COLLATE "C"`, namespaces)
	if err != nil {
		return nil, Explain("reading secrets", err)
	}
	list, err := collectSecrets(rows)
	return list, Explain("reading secrets", err)
}

func collectSecrets(rows pgx.Rows) ([]*Secret, error) {
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (*Secret, error) {
		var r secretRow
		if err := row.Scan(r.targets()...); err != nil {
			return nil, err
		}
		return r.secret()
	})
}

// addSecretsQuery reads the current state of the secrets that some revisions changed.
const addSecretsQuery = `
SELECT t.revision, c.namespace, c.name, (
    SELECT max(x.revision) FROM mesh.secret_changes y JOIN mesh.transactions x ON x.id = y.transaction_id
    WHERE y.namespace = c.namespace AND y.name = c.name),
  ` + secretColumns + `
FROM mesh.transactions t JOIN mesh.secret_changes c ON c.transaction_id = t.id
  LEFT JOIN mesh.secrets s ON s.namespace = c.namespace AND s.name = c.name
WHERE t.revision = ANY ($1)
ORDER BY t.revision, c.namespace COLLATE "C", c.name COLLATE "C"`

// addSecrets adds to the batches of a page the secrets that they changed.
func addSecrets(ctx context.Context, conn *pgx.Conn, page []Batch) error {
	changed := map[Revision]*Batch{}
	var revisions []Revision
	for i := range page {
		if page[i].secret {
			changed[page[i].Revision] = &page[i]
			revisions = append(revisions, page[i].Revision)
		}
	}
	if len(revisions) == 0 {
		return nil
	}
	rows, err := conn.Query(ctx, addSecretsQuery, revisions)
	if err != nil {
		return err
	}
	var revision Revision
	var c SecretChange
	var r secretRow
	c.Key.Kind = kinds.Secret
	_, err = pgx.ForEachRow(rows, append([]any{&revision, &c.Key.Namespace, &c.Key.Name, &c.Through}, r.targets()...), func() (err error) {
		if c.Now, err = r.secret(); err == nil {
			changed[revision].Secrets = append(changed[revision].Secrets, c)
		}
		return err
	})
	for _, b := range changed {
		if err == nil && len(b.Secrets) == 0 {
			err = fmt.Errorf("%w: what revision %d has changed was just pruned", ErrTooOld, b.Revision)
		}
	}
	return err
}

// eachSecret calls a function with all secrets that a transaction sees.
func eachSecret(ctx context.Context, tx pgx.Tx, each func(*Secret) error) error {
	rows, err := tx.Query(ctx, "SELECT "+secretColumns+" FROM mesh.secrets s")
	if err != nil {
		return err
	}
	all, err := collectSecrets(rows)
	if err != nil {
		return err
	}
	for _, s := range all {
		if err := each(s); err != nil {
			return OfCaller(err)
		}
	}
	return nil
}

// upsertSecrets is upsert for secrets, whose specs have a type, data and service accounts.
func upsertSecrets(ctx context.Context, tx pgx.Tx, upserts []Upsert) (map[key]bool, error) {
	var c columns
	for _, u := range slices.SortedFunc(slices.Values(upserts), func(a, b Upsert) int { return compareKeys(a.Key, b.Key) }) {
		c.addKey(u.Key)
		c.specs = append(c.specs, string(u.Spec))
		c.labels = append(c.labels, jsonObject(u.Labels))
	}
	rows, err := tx.Query(ctx, `
		INSERT INTO mesh.secrets AS s (namespace, name, type, data, service_accounts, labels)
		SELECT ns, n, spec::jsonb ->> 'type', coalesce(spec::jsonb -> 'data', '{}'),
			ARRAY(SELECT a #>> '{}' FROM jsonb_path_query(spec::jsonb, '$.serviceAccounts[*] ? (@ != null)') a), labels::jsonb
		FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS u (ns, n, spec, labels)
		ON CONFLICT (namespace, name) DO UPDATE SET type = EXCLUDED.type, data = EXCLUDED.data, service_accounts = EXCLUDED.service_accounts, labels = EXCLUDED.labels
		WHERE (s.type, s.data, s.service_accounts, s.labels) IS DISTINCT FROM (EXCLUDED.type, EXCLUDED.data, EXCLUDED.service_accounts, EXCLUDED.labels)
		RETURNING 'core', 'Secret', namespace, name, xmax = 0`, c.namespaces, c.names, c.specs, c.labels)
	if err != nil {
		return nil, err
	}
	return collectKeys(rows)
}

func removeSecrets(ctx context.Context, tx pgx.Tx, deletes []kinds.Key) (map[key]bool, error) {
	var c columns
	for _, k := range slices.SortedFunc(slices.Values(deletes), compareKeys) {
		c.addKey(k)
	}
	rows, err := tx.Query(ctx, `
		DELETE FROM mesh.secrets s USING unnest($1::text[], $2::text[]) AS d (ns, n)
		WHERE s.namespace = ns AND s.name = n RETURNING 'core', 'Secret', namespace, name, true`, c.namespaces, c.names)
	if err != nil {
		return nil, err
	}
	return collectKeys(rows)
}

// isSecret reports whether a key is a secret's.
func isSecret(k kinds.Key) bool { return k.Kind == kinds.Secret }
