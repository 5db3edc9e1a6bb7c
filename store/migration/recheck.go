package migration

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/pressly/goose/v3"
)

// recheckResources checks stored resources by the current rules unless that was done already, in
// portions so that others can write meanwhile. It makes no revision. Resources that break the rules
// stay, because they may have long been in force, and are reported.
func recheckResources(ctx context.Context, conn *pgx.Conn, _ *goose.Provider, tell func(string)) error {
	var kind, group, namespace, name *string
	start := ""
	kind, group, namespace, name = &start, &start, &start, &start
	broken := int64(0)
	for kind != nil {
		var wrong int64
		err := conn.QueryRow(ctx, sql.Recheck, kind, group, namespace, name).
			Scan(&kind, &group, &namespace, &name, &wrong)
		if err != nil {
			return explain("checking what is stored by the rules of this program", err)
		}
		broken += wrong
	}
	if broken > 0 {
		tell(fmt.Sprintf("%d resources break rules of this program; see mesh.unsound", broken))
	}
	return nil
}
