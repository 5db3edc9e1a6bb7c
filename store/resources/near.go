package resources

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/internal/kit/nearest"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/store"
)

// Near suggests an existing resource for a missing one: one with a similar name, or the same name
// in another namespace, and none of those that are meant by themselves. It is empty if there is none.
func (s *Store) Near(ctx context.Context, missing kinds.Key, meant ...kinds.Key) (string, error) {
	rows, err := s.db.Pool().Query(ctx, sql.Near, missing.Kind.Name, missing.Kind.Group, missing.Namespace, missing.Name)
	if err != nil {
		return "", store.Explain("looking for a resource of a similar name", err)
	}
	var inNamespace []string
	var elsewhere string
	var namespace, name string
	_, err = pgx.ForEachRow(rows, []any{&namespace, &name}, func() error {
		switch {
		case slices.Contains(meant, kinds.Key{Kind: missing.Kind, Namespace: namespace, Name: name}):
		case namespace == missing.Namespace:
			inNamespace = append(inNamespace, name)
		case elsewhere == "":
			elsewhere = namespace
		}
		return nil
	})
	if err != nil {
		return "", store.Explain("looking for a resource of a similar name", err)
	}
	if near := nearest.Word(missing.Name, inNamespace); near != "" {
		return fmt.Sprintf("did you mean %q?", near), nil
	}
	if elsewhere != "" {
		return fmt.Sprintf("there is one in the namespace %q", elsewhere), nil
	}
	return "", nil
}
