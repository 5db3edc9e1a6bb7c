// Package rows reads rows of resources, and writes lists of resources as parameters of a query.
package rows

import (
	"embed"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/store"
)

// Fragments are what the queries of several packages have in common.
//
//go:embed queries
var Fragments embed.FS

// EachResource calls each with the resources of rows, whose columns are the fragment
// ResourceColumns. Kinds that this program does not know are left out.
func EachResource(db *store.Store, rows pgx.Rows, each func(*store.Resource) error) error {
	defer rows.Close()
	for rows.Next() {
		var k Key
		var b Body
		if err := rows.Scan(append(k.Targets(), b.Targets()...)...); err != nil {
			return err
		}
		known, ok := k.Known(db, orZero(b.revision))
		if !ok {
			continue
		}
		r, err := b.Resource(known)
		if err == nil {
			err = each(r)
		}
		if err != nil {
			return store.OfCaller(err)
		}
	}
	return rows.Err()
}

// Flags reads rows of a key and a flag.
func Flags(rows pgx.Rows) (map[Key]bool, error) {
	found := map[Key]bool{}
	var k Key
	var flag bool
	_, err := pgx.ForEachRow(rows, append(k.Targets(), &flag), func() error {
		found[k] = flag
		return nil
	})
	return found, err
}

// Columns are the parameters of a statement about many resources, one array for each column.
type Columns struct {
	Groups, Kinds, Namespaces, Names []string
	Specs, Labels, Annotations       []string // as JSON
}

// AddKey adds the key of a resource.
func (c *Columns) AddKey(k kinds.Key) {
	c.Groups = append(c.Groups, k.Kind.Group)
	c.Kinds = append(c.Kinds, k.Kind.Name)
	c.Namespaces = append(c.Namespaces, k.Namespace)
	c.Names = append(c.Names, k.Name)
}
