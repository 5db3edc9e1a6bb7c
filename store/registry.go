package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/kinds"
)

// kindRow is a row of mesh.kinds.
type kindRow struct {
	APIGroup   string   `json:"api_group"`
	Kind       string   `json:"kind"`
	Plural     string   `json:"plural"`
	ShortNames []string `json:"short_names"`
	Versions   []string `json:"versions"`
	Namespaced bool     `json:"namespaced"`
}

func kindRows() []kindRow {
	var rows []kindRow
	for _, k := range kinds.All() {
		rows = append(rows, kindRow{k.Group, k.Name, k.Plural, append([]string{}, k.ShortNames...), k.Versions, k.Namespaced})
	}
	return rows
}

// syncRegistry makes the database know the kinds that this program knows, and no others. It writes only if they differ.
func syncRegistry(ctx context.Context, conn *pgx.Conn) error {
	known, err := json.Marshal(kindRows())
	if err != nil {
		return fmt.Errorf("encoding the kinds: %w", err)
	}
	sum := sha256.Sum256(known)
	digest := hex.EncodeToString(sum[:])
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		changed, err := tx.Exec(ctx, "UPDATE mesh.installation SET registry_digest = $1 WHERE registry_digest <> $1", digest)
		if err != nil || changed.RowsAffected() == 0 {
			return err
		}
		if _, err := tx.Exec(ctx, "DELETE FROM mesh.kinds"); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, "INSERT INTO mesh.kinds SELECT * FROM jsonb_populate_recordset(NULL::mesh.kinds, $1)", known)
		return err
	})
	return explain("writing the kinds to the database", err)
}
